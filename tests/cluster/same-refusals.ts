/**
 * Every route refuses the same callers with the same words, whether the node that is asked leads the task or passes
 * the request on. The table of all roles runs on one server, in tests/contract; a node runs the same operations, so it is
 * enough to see that nothing is different behind the way to another node.
 */
import assert from "node:assert/strict";
import type { AnyRoute } from "../../packages/server/src/edge/http/route.ts";
import { routes } from "../../packages/server/src/start/features.ts";
import type { ThreeNodes } from "./three-nodes.ts";

const raw = (tenantId: string, roles: readonly string[]): object => ({ tenantId, roles });
const all = { scopes: ["codeq:create", "codeq:claim", "codeq:result", "codeq:nack"] };

/** Tokens for the callers below, beside that of the operator. */
export const callers: Readonly<Record<string, string>> = {
  PRODUCER_AUTH_CONFIG: JSON.stringify([
    { token: "dev-token", subject: "dev-user", raw: raw("dev-tenant", ["operator"]) },
    { token: "producer-globex", subject: "shop", raw: raw("globex", []) },
    { token: "admin-globex", subject: "boss", raw: raw("globex", ["admin"]) },
    { token: "viewer-globex", subject: "guest", raw: raw("globex", ["viewer"]) },
  ]),
  WORKER_AUTH_CONFIG: JSON.stringify([
    { token: "worker-globex", subject: "w", eventTypes: ["*"], raw: raw("globex", []), ...all },
  ]),
};
const tokens = ["", "wrong", "producer-globex", "worker-globex", "admin-globex", "viewer-globex"];
/** It goes on until the server ends it. */
const isEndless = ({ path }: AnyRoute): boolean => path.endsWith("/events");

interface Answered {
  readonly status: number;
  /** Of what was refused. */
  readonly error: string | undefined;
}

/** `id` is a task of another tenant than that of the callers. */
export async function assertSameRefusals(
  cluster: ThreeNodes,
  { leader, follower, id }: { leader: string; follower: string; id: string },
): Promise<void> {
  let refusals = 0;
  for (const route of routes.filter((each) => !isEndless(each))) {
    for (const token of tokens) {
      const call = (node: string): Promise<Answered> =>
        answered(cluster, node, { route, token, id });
      const [led, passedOn] = [await call(leader), await call(follower)];
      assert.deepEqual(passedOn, led, `${route.method} ${route.path} by ${token || "nobody"}`);
      if (led.status >= 400) refusals += 1;
    }
  }
  assert.ok(refusals > routes.length * 3, `only ${refusals} refusals`);
}

async function answered(
  cluster: ThreeNodes,
  node: string,
  { route, token, id }: { route: AnyRoute; token: string; id: string },
): Promise<Answered> {
  const path = route.path.replace(/:\w+/g, id);
  const isWithBody = route.method !== "GET" && route.method !== "DELETE";
  const reply = await fetch(`${cluster.servers.get(node)?.url}${path}`, {
    method: route.method,
    headers: token === "" ? {} : { authorization: `Bearer ${token}` },
    ...(isWithBody ? { body: "{}" } : {}),
  });
  const text = await reply.text();
  assert.ok(!text.includes("classified"), `${route.path} showed a payload of another tenant`);
  const error = reply.status < 400 ? undefined : text;
  return { status: reply.status, error };
}
