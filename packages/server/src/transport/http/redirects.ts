/**
 * Redirects to the leader, for clients that ask for them with a header. Any node answers every request; whoever wants to
 * save the way between nodes can be told where the leader is. Asked for without a known address, and at the leader, a
 * request is answered as ever.
 */
import type { TaskId } from "@codeq/queue";
import type { Cluster } from "../../operations/operation.ts";
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

export interface RedirectedRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly params: Readonly<Record<string, string>>;
}

export function redirectOf(
  { redirects }: AnyRoute,
  { url, headers, params }: RedirectedRequest,
  cluster: Pick<Cluster, "leaderUrl"> | undefined,
): HttpReply | undefined {
  if (cluster === undefined || redirects !== true || headers[header] !== wanted) return undefined;
  const leader = cluster.leaderUrl(params["id"] as TaskId | undefined);
  if (leader === undefined) return undefined;
  return {
    status: 307,
    body: JSON.stringify({ error: "not leader", leader }),
    headers: { location: `${leader}${url}` },
  };
}
