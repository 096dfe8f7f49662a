/** What the tests of clusters ask. */
import assert from "node:assert/strict";
import type { ApiClient } from "../e2e/api-client.ts";
import type { ThreeNodes } from "./three-nodes.ts";

export type { ApiClient } from "../e2e/api-client.ts";

/** Nothing to claim, or no leader for a moment. */
const passing: readonly number[] = [204, 503];

/**
 * Looks until there is something to find. A test that looks again without a pause takes the CPU from the nodes that it
 * waits for, so between two looks a node holds a claim for a second, even while it knows no leader.
 */
export async function untilFound<T>(
  client: ApiClient,
  look: () => Promise<T | undefined>,
): Promise<T> {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    const held = { commands: ["nobody-creates-this"], waitSeconds: 1 };
    const { status, text } = await client.post("/tasks/claim", held);
    assert.ok(passing.includes(status), text);
  }
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
