/** What the tests of clusters ask, and read in answers. */
import type { Reply } from "../e2e/api-client.ts";
import type { ThreeNodes } from "./three-nodes.ts";

export type { ApiClient } from "../e2e/api-client.ts";

/** The status of a result. */
export function resultOf({ status, text }: Reply): string {
  if (status !== 200) return `${status} ${text}`;
  return (JSON.parse(text) as { result: { status: string } }).result.status;
}

/** A request to one node, as anybody. */
export async function ask(
  cluster: ThreeNodes,
  node: string,
  call: {
    readonly method?: string;
    readonly path: string;
    readonly body?: unknown;
    readonly token?: string;
  },
): Promise<{ readonly status: number; readonly text: string }> {
  const { method = "GET", path, body, token = "dev-token" } = call;
  const url = `${cluster.servers.get(node)?.url}/v1/codeq${path}`;
  const reply = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: reply.status, text: await reply.text() };
}
