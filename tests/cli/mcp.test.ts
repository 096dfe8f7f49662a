/** `codeq mcp` and the official client of the protocol: what an agent sees, call by call. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { bareEnvironment, type CliServer, cliMain, jsonLines, setup } from "./setup.ts";

interface Answer {
  readonly error?: unknown;
  readonly code?: string;
  readonly id?: string;
  readonly payload?: string;
  readonly leaseToken?: number;
  readonly status?: string;
  readonly task?: { readonly place: string };
  readonly result?: object;
  readonly groups?: readonly { readonly id: string; readonly count: number }[];
  readonly matched?: number;
  readonly replayed?: number;
  readonly isDryRun?: true;
  readonly confirm?: string;
  readonly tasks?: readonly { readonly id: string }[];
  readonly why?: string;
  readonly queues?: readonly { readonly command: string }[];
}

interface Agent {
  readonly client: Client;
  /** Calls a tool, and gives its answer with `error:` before a refusal. */
  readonly call: (name: string, given?: object) => Promise<Answer>;
}

async function agent(t: TestContext, { server }: CliServer, ...flags: string[]): Promise<Agent> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ["--conditions=source", cliMain, "mcp", ...flags],
    env: { ...bareEnvironment("/"), CODEQ_BASE_URL: server.url },
  });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  t.after(() => client.close());
  return {
    client,
    call: async (name, given = {}) => {
      const answer = await client.callTool({ name, arguments: { ...given } });
      const [{ text }] = answer.content as [{ text: string }];
      const value = JSON.parse(text);
      assert.equal(answer.isError, "error" in value);
      return value;
    },
  };
}

test("an agent finds out which tools there are and what they require", async (t) => {
  const world = await setup(t);
  const { client } = await agent(t, world);
  assert.match(client.getInstructions() ?? "", /leaseToken of the claim/);
  const { tools } = await client.listTools();
  const shown = tools.map(
    ({ name, inputSchema: { required = [] }, annotations }) =>
      `${annotations?.readOnlyHint ? "reads " : "writes"} ${name}(${required.join(", ")})`,
  );
  assert.deepEqual(shown, [
    "reads  search_tasks()",
    "reads  get_task(id)",
    "reads  explain_task(id)",
    "reads  list_queues()",
    "reads  group_failures()",
    "writes enqueue_task(command, payload)",
    "writes claim_task()",
    "writes report_progress(id, leaseToken)",
    "writes complete_task(id, result, leaseToken)",
    "writes fail_task(id, reason, leaseToken)",
    "writes release_task(id, leaseToken)",
    "writes replay_dead_letters()",
  ]);
  const claim = tools.find(({ name }) => name === "claim_task")?.inputSchema as object;
  assert.deepEqual(Object.keys((claim as { properties: object }).properties), [
    "commands",
    "leaseSeconds",
    "waitSeconds",
  ]);
  const reader = await agent(t, world, "--read-only");
  const offered = (await reader.client.listTools()).tools;
  assert.ok(offered.every(({ annotations }) => annotations?.readOnlyHint));
  assert.match(String((await reader.call("claim_task")).error), /no such tool/);
});

test("an agent works on tasks under a lease, and one that was overtaken changes nothing", async (t) => {
  const { call } = await agent(t, await setup(t));
  const { id } = await call("enqueue_task", { command: "summarise", payload: { page: 7 } });
  const claimed = await call("claim_task", { commands: ["summarise"], leaseSeconds: 60 });
  assert.deepEqual([claimed.id, claimed.payload], [id, '{"page":7}']);
  const { leaseToken } = claimed;
  assert.deepEqual(await call("claim_task", { commands: ["summarise"], waitSeconds: 0 }), {
    note: "no task is ready",
  });
  const progress = { percent: 50, text: "reading" };
  assert.deepEqual(await call("report_progress", { id, leaseToken, progress }), { ok: true });
  assert.deepEqual(await call("complete_task", { id, result: { text: "" } }), {
    error: "missing: leaseToken",
    code: "invalid_argument",
  });
  assert.deepEqual(await call("release_task", { id, leaseToken }), { status: "requeued" });
  const again = await call("claim_task", { commands: ["summarise"] });
  assert.ok(Number(again.leaseToken) > Number(leaseToken));
  for (const [name, more] of [
    ["report_progress", {}],
    ["complete_task", { result: { text: "late" } }],
    ["fail_task", { reason: "late" }],
    ["release_task", {}],
  ] as const) {
    const refused = await call(name, { id, leaseToken, ...more });
    assert.equal(refused.code, "not_owner", name);
  }
  const done = { id, leaseToken: again.leaseToken, result: { text: "short" } };
  assert.equal((await call("complete_task", done)).status, "COMPLETED");
  const { task, result } = await call("get_task", { id });
  assert.equal(task?.place, "done");
  assert.match(JSON.stringify(result), /short/);
});

test("an agent groups failures and replays dead letters, after a dry run of the same", async (t) => {
  const { call } = await agent(t, await setup(t));
  for (const page of [1, 2]) {
    await call("enqueue_task", { command: "mail", payload: { page }, maxAttempts: 1 });
    const { id, leaseToken } = await call("claim_task", { commands: ["mail"] });
    const failed = await call("fail_task", { id, leaseToken, reason: `no such host ${page}` });
    assert.equal(failed.status, "dlq");
  }
  const { groups } = await call("group_failures");
  const group = groups?.[0];
  assert.equal(group?.count, 2);
  const filter = { group: group?.id };
  const dry = await call("replay_dead_letters", filter);
  assert.deepEqual([dry.matched, dry.replayed, dry.isDryRun], [2, 0, true]);
  const { confirm } = dry;
  for (const wrong of [{ confirm }, { ...filter, confirm: "yes" }, { all: true, confirm }]) {
    assert.match(String((await call("replay_dead_letters", wrong)).error), /^no dry run with/);
  }
  const found = await call("search_tasks", { place: "dead" });
  assert.equal(found.tasks?.length, 2);
  assert.equal((await call("replay_dead_letters", { ...filter, confirm })).replayed, 2);
  assert.match(
    String((await call("replay_dead_letters", { ...filter, confirm })).error),
    /^no dry/,
  );
  const ready = await call("search_tasks", { place: "ready", command: "mail" });
  const id = ready.tasks?.[0]?.id;
  assert.match(String((await call("explain_task", { id })).why), /worker/);
  const { queues = [] } = await call("list_queues");
  assert.deepEqual(
    queues.map(({ command }) => command),
    ["mail"],
  );
  assert.equal((await call("search_tasks", { queue: "mail" })).code, "invalid_argument");
  assert.equal((await call("get_task", { id: "0".repeat(8) })).code, "not_found");
});

test("an agent may do what its token allows", async (t) => {
  const { call } = await agent(t, await setup(t), "--token", "wrong");
  const refused = await call("list_queues");
  assert.equal(refused.code, "invalid_token");
  assert.match(String(refused.error), /token/);
});

test("the key of an agent limits its tools, and the audit trail names the key", async (t) => {
  const world = await setup(t);
  const cli = world.world();
  const keyOf = async (name: string, ...flags: string[]) => {
    const { output } = await cli.run("key", "create", name, ...flags, "--json");
    return JSON.parse(output) as { readonly id: string; readonly token: string };
  };
  const workers = ["--scopes", "claim,heartbeat,nack,abandon,result", "--events", "summarise"];
  const worker = await agent(t, world, "--token", (await keyOf("summariser", ...workers)).token);
  await cli.run("enqueue", "summarise", '{"page":7}', "--max-attempts", "1");
  const { id, leaseToken } = await worker.call("claim_task", { commands: ["summarise"] });
  const other = await worker.call("claim_task", { commands: ["mail"] });
  assert.equal(other.code, "event_type_not_allowed");
  const made = await worker.call("enqueue_task", { command: "summarise", payload: {} });
  assert.equal(made.code, "missing_scope");
  await worker.call("fail_task", { id, leaseToken, reason: "no such page" });
  assert.equal((await worker.call("list_queues")).code, "admin_only");
  const key = await keyOf("doctor", "--role", "admin");
  const doctor = await agent(t, world, "--token", key.token);
  const filter = { all: true };
  const { confirm } = await doctor.call("replay_dead_letters", filter);
  await doctor.call("replay_dead_letters", { ...filter, confirm });
  const records = jsonLines((await cli.run("audit", "--json")).output);
  const replays = records.filter(({ action }) => action === "replay_dead_letters");
  assert.deepEqual(
    replays.map(({ apiKeyId, detail }) => [apiKeyId, detail]),
    [
      [key.id, "1 of 1 tasks"],
      [key.id, "0 of 1 tasks"],
    ],
  );
});
