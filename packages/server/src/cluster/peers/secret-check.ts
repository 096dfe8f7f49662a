/**
 * Whether the other nodes have the secret of this one, asked at the start: a node with another secret cannot take part,
 * and waiting does not help. Nodes that do not answer say nothing.
 */
import { connect, type TLSSocket } from "node:tls";
import { FaultError, type LeaderName } from "@codeq/engine";
import type { Clock } from "../../core/clock.ts";
import { hostAndPort, type PeerTls } from "./peers.ts";

const answerMsMax = 1000;
/** The certificate of the other end was not made by the CA of this node. */
const ofAnotherCa: ReadonlySet<string> = new Set([
  "CERT_SIGNATURE_FAILURE",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

type Found = "same" | "another" | "unknown";

/** Throws when all nodes that answer have another secret. */
export async function assertSameSecret(
  others: readonly LeaderName[],
  tls: PeerTls,
  clock: Clock,
): Promise<void> {
  const found = await Promise.all(others.map((node) => secretOf(node, tls, clock)));
  const different = others.filter((_, at) => found[at] === "another").map(({ id }) => id);
  if (different.length === 0 || found.includes("same")) return;
  throw new FaultError(
    "format",
    `this node has another clusterSecret, or certificates of another CA, than ${different.join(" and ")}. ` +
      "Set the same clusterSecret on all nodes.",
  );
}

function secretOf(node: LeaderName, tls: PeerTls, clock: Clock): Promise<Found> {
  return new Promise((resolve) => {
    const socket: TLSSocket = connect({
      ...hostAndPort(node.address),
      ...tls,
      rejectUnauthorized: false,
    });
    const end = (found: Found): void => {
      cancel();
      socket.destroy();
      resolve(found);
    };
    const cancel = clock.after(answerMsMax, () => end("unknown"));
    socket.once("error", () => end("unknown"));
    socket.once("secureConnect", () => {
      if (socket.authorized) end("same");
      else end(ofAnotherCa.has(String(socket.authorizationError)) ? "another" : "unknown");
    });
  });
}
