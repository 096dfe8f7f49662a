/** What the tests of clusters ask. */
import type { ThreeNodes } from "./three-nodes.ts";

export type { ApiClient } from "../e2e/api-client.ts";

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
