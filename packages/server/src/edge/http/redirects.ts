/**
 * Redirects to the leader, for clients that ask for them with a header. Any node answers every request; a
 * redirect saves the hop between nodes. A request is answered normally when this node leads, or when the
 * address of the leader is unknown.
 */
import type { TaskId } from "@codeq/queue";
import type { Cluster } from "../operation.ts";
import type { Exchange } from "./calls.ts";
import type { AnyRoute, HttpReply } from "./route.ts";

const header = "codeq-redirect";
const wanted = "leader";

/** For the description of routes that redirect. */
export const redirected = {
  307: {
    about: "Another node leads, and the request has the header `Codeq-Redirect: leader`.",
    schema: "NotLeader",
    headers: { location: "The same request at the leader." },
  },
} as const;

export function redirectOf(
  { redirects }: AnyRoute,
  { path, headers, params }: Pick<Exchange, "path" | "headers" | "params">,
  cluster: Pick<Cluster, "leaderUrl">,
): HttpReply | undefined {
  if (redirects !== true || headers[header] !== wanted) return undefined;
  const leader = cluster.leaderUrl(params["id"] as TaskId | undefined);
  if (leader === undefined) return undefined;
  return {
    status: 307,
    body: JSON.stringify({ error: "not leader", leader }),
    headers: { location: `${leader}${path}` },
  };
}
