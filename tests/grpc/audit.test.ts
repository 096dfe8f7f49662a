/** Refusals on streams leave the same records as those of requests. */
import assert from "node:assert/strict";
import test from "node:test";
import { settle } from "@codeq/simulated";
import type { StaticTokenConfig } from "../../packages/server/src/config/settings.ts";
import { type Server, setup } from "./setup.ts";
import { producerAuth } from "./tokens.ts";

// biome-ignore lint/suspicious/noExplicitAny: the record as it is on the wire.
type Shown = any;

const root = { name: "root", role: "operator" };
const operator: StaticTokenConfig = {
  token: "operator",
  subject: "root",
  email: "",
  scopes: [],
  eventTypes: [],
  raw: { tenantId: "ops", role: "operator" },
};

/** Records of everybody, the oldest first, after what was counted has been written. */
async function records(server: Server, query = ""): Promise<Shown[]> {
  await server.api.clock.advance(1000);
  await settle();
  const reply = await server.api.get(`/admin/audit?tenant=*${query}`, "operator");
  assert.equal(reply.status, 200, reply.text);
  return reply.json.records.toReversed();
}

function withOperator(t: Parameters<typeof setup>[0]): Promise<Server> {
  return setup(t, {
    settings: { producerAuth: [...producerAuth, { type: "static", tokens: [operator] }] },
  });
}

test("a Hello that is refused is recorded, with the reason and the address, without the token", async (t) => {
  const server = await withOperator(t);
  for (const [kind, token] of [
    ["worker", "garbage-1"],
    ["worker", "garbage-2"],
    ["worker", ""],
    ["producer", "garbage-3"],
    ["worker", "worker-no-types"],
    ["worker", "worker-number-tenant"],
  ] as const) {
    const call = server.open(kind);
    call.send({ hello: { token } });
    await call.ended;
  }
  const shown = await records(server);
  assert.deepEqual(
    shown.map((each) => [each.action, each.outcome, each.code, each.count, each.address]),
    [
      ["worker_stream", "refused", "invalid_token", 2, "127.0.0.1"],
      ["worker_stream", "refused", "missing_authorization", undefined, "127.0.0.1"],
      ["producer_stream", "refused", "invalid_token", undefined, "127.0.0.1"],
      ["worker_stream", "refused", "missing_event_types", undefined, "127.0.0.1"],
      ["worker_stream", "refused", "invalid_tenant", undefined, "127.0.0.1"],
    ],
  );
  const kept = [...(await server.api.dump())].flat().join("\n") + server.api.lines.join("\n");
  assert.equal(kept.includes("garbage"), false);
});

test("an event that is refused for its scope or command is recorded under its worker's name", async (t) => {
  const server = await withOperator(t);
  const few = await server.worker("worker-claims");
  for (let times = 0; times < 3; times += 1) await few.ask({ heartbeat: { taskId: "x" } });
  await few.ask({ result: { taskId: "x", status: "COMPLETED" } });
  const render = await server.worker("worker-render");
  await render.ask({ ready: { commands: ["print"] } });
  const producer = await server.producer("producer-claims");
  await producer.ask({ create: { seq: 1, command: "render" } });
  const prints = await server.producer("producer-prints");
  const tasks = [1, 2].map((seq) => ({ seq, command: "render" }));
  await prints.ask({ createBatch: { tasks } });
  const shown = await records(server);
  assert.deepEqual(
    shown.map((each) => [each.action, each.subject, each.tenantId, each.code, each.count ?? 1]),
    [
      ["extend_lease", "worker-3", "acme", "missing_scope", 3],
      ["submit_result", "worker-3", "acme", "missing_scope", 1],
      ["claim_tasks", "worker-4", "acme", "event_type_not_allowed", 1],
      ["create_task", "shop", "acme", "missing_scope", 1],
      ["create_task", "shop", "acme", "event_type_not_allowed", 2],
    ],
  );
  for (const each of shown) assert.equal(each.address, "127.0.0.1");
  const own = (await server.api.get("/admin/audit", "admin-acme")).json.records;
  assert.equal(own.length, 5, "the tenant's admin sees them");
});

test("work that is allowed leaves no record", async (t) => {
  const server = await withOperator(t);
  const { call, task } = await server.leased();
  await call.ask({ heartbeat: { taskId: task["id"] } });
  await call.ask({ heartbeat: { taskId: "another" } });
  await call.ask({ result: { taskId: task["id"], status: "COMPLETED" } });
  assert.deepEqual(await records(server), []);
  await server.api.post("/admin/keys", root, "operator");
  assert.equal((await records(server, "&action=create_api_key")).length, 1);
});
