/** Commands on the data of a server with several shards, and the change of their number. */
import assert from "node:assert/strict";
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { CliWorld } from "../../packages/cli/test/cli-world.ts";
import { ApiClient, type TaskJson } from "../e2e/api-client.ts";
import {
  endOfServer,
  type ServerProcess,
  spawnServer,
  startServer,
  temporaryDirectory,
} from "../e2e/server-process.ts";
import { startCommand } from "./setup.ts";

interface Setup {
  readonly dataDir: string;
  readonly cli: CliWorld;
  readonly start: (shards: number) => Promise<{ server: ServerProcess; api: ApiClient }>;
}

function setup(t: TestContext): Setup {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const dataDir = join(directory.path, "data");
  const cli = new CliWorld();
  t.after(() => cli[Symbol.dispose]());
  const start: Setup["start"] = async (shards) => {
    const server = await startServer({ dataDir, env: { CODEQ_SHARDS: String(shards) } });
    t.after(() => server.kill());
    const api = new ApiClient(server.port);
    t.after(() => api.close());
    return { server, api };
  };
  return { dataDir, cli, start };
}

/** Creates tasks with these keys; the ids that they stand for. */
async function createAll(api: ApiClient, keys: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const idempotencyKey of keys) {
    const body = { command: "work", payload: { idempotencyKey }, idempotencyKey };
    const { status, text } = await api.create(body);
    assert.ok(status === 202 || status === 200, text);
    ids.push((JSON.parse(text) as TaskJson).id);
  }
  return ids;
}

async function readyCount(api: ApiClient): Promise<number> {
  const { text } = await api.get("/admin/queues/work");
  return (JSON.parse(text) as { ready: number }).ready;
}

/** Claims and finishes until nothing is left; the ids in their order. */
async function finishAll(api: ApiClient): Promise<string[]> {
  const done: string[] = [];
  for (;;) {
    const claimed = await api.post("/tasks/claim", { commands: ["work"], leaseSeconds: 60 });
    if (claimed.status !== 200) return done;
    const { id } = JSON.parse(claimed.text) as TaskJson;
    const { status, text } = await api.post(`/tasks/${id}/result`, {
      status: "COMPLETED",
      result: {},
    });
    assert.equal(status, 200, text);
    done.push(id);
  }
}

const keys = Array.from({ length: 40 }, (_, number) => `order-${number}`);

test("a server goes on with another number of shards: same tasks, same keys, nothing twice", async (t) => {
  const { dataDir, cli, start } = setup(t);
  const first = await start(1);
  const ids = await createAll(first.api, keys);
  const live = await cli.run("shards", "migrate", "--to", "4", "--data-dir", dataDir);
  assert.equal(live.code, 3);
  assert.match(live.errors, /in use by another codeQ process/);
  await first.server.stop();
  const refused = await endOfServer({ dataDir, env: { CODEQ_SHARDS: "4" } });
  assert.match(refused.stderr, /codeq shards migrate --to 4/);

  const migrated = await cli.run("shards", "migrate", "--to", "4", "--data-dir", dataDir);
  assert.deepEqual([migrated.code, migrated.errors], [0, "copying 40 tasks\nverifying 40 tasks\n"]);
  assert.match(migrated.output, /^1 -> 4 shards, 40 tasks moved and verified\n.*shards to 4/);
  const second = await start(4);
  assert.equal(await readyCount(second.api), 40);
  assert.deepEqual(await createAll(second.api, keys), ids);
  const others = await createAll(second.api, ["new-1", "new-2", "new-3"]);
  await second.server.stop();

  const json = await cli.run("shards", "migrate", "--to", "3", "--data-dir", dataDir, "--json");
  const told = { from: 4, to: 3, tasks: 43, setAside: 0, isResumed: false };
  assert.deepEqual(JSON.parse(json.output), told);
  const third = await start(3);
  assert.deepEqual(await createAll(third.api, keys), ids);
  const finished = await finishAll(third.api);
  assert.deepEqual(finished.sort(), [...ids, ...others].sort());
  assert.equal(await readyCount(third.api), 0);
  // The keys of tasks that are done still stand for them.
  assert.deepEqual(await createAll(third.api, keys), ids);
  await third.server.stop();
  const none = await cli.run("shards", "migrate", "--to", "3", "--data-dir", dataDir);
  assert.equal(none.output, "the data already has 3 shards\n");
});

test("schedules go on where they were, and fire nothing twice, with another number of shards", async (t) => {
  const { dataDir, cli, start } = setup(t);
  const first = await start(1);
  const commands = async (server: ServerProcess, ...args: string[]): Promise<string> => {
    const to = ["--base-url", server.url, "--producer-token", "dev-token"];
    const { code, output, errors } = await cli.run("schedules", ...args, ...to);
    assert.equal(code, 0, errors);
    return output;
  };
  const shown = async (server: ServerProcess) => ({
    schedule: JSON.parse(await commands(server, "get", "tick", "--json")),
    runs: (await commands(server, "runs", "tick", "--json", "--limit", "1000")).trim().split("\n"),
  });
  await commands(first.server, "put", "tick", "work", "--every", "1s", "--overlap", "allow");
  const claimed = await first.api.post("/tasks/claim", { commands: ["work"], waitSeconds: 10 });
  assert.equal(claimed.status, 200);
  await commands(first.server, "pause", "tick");
  const before = await shown(first.server);
  await first.server.stop();
  const migrated = await cli.run("shards", "migrate", "--to", "3", "--data-dir", dataDir);
  assert.equal(migrated.code, 0, migrated.errors);
  const second = await start(3);
  const { schedule, runs } = await shown(second.server);
  assert.deepEqual({ ...schedule, live: 0 }, { ...before.schedule, live: 0 });
  assert.deepEqual(runs.length, before.runs.length);
});

test("bad numbers are refused before anything is looked at", async (t) => {
  const { dataDir, cli } = setup(t);
  for (const to of ["0", "65", "four", "1.5"]) {
    const { code } = await cli.run("shards", "migrate", "--to", to, "--data-dir", dataDir);
    assert.equal(code, 2, to);
  }
  assert.equal((await cli.run("shards", "migrate", "--data-dir", dataDir)).code, 2);
  const both = ["--to", "2", "--abort", "--data-dir", dataDir];
  assert.equal((await cli.run("shards", "migrate", ...both)).code, 2);
  const none = await cli.run("shards", "migrate", "--to", "2", "--data-dir", dataDir);
  assert.equal(none.code, 4);
  assert.match(none.errors, /there is no data in/);
  assert.equal(existsSync(dataDir), false);
});

test("doctor, log inspect and keys know shards", async (t) => {
  const { dataDir, cli, start } = setup(t);
  const { server, api } = await start(2);
  const ids = await createAll(api, keys);
  await server.stop();
  const where = ["--data-dir", dataDir];

  const all = JSON.parse((await cli.run("log", "inspect", ...where, "--json")).output);
  const shards = all.logs.map(({ shard }: { shard: unknown }) => shard);
  assert.deepEqual(shards, ["control", 0, 1]);
  const text = await cli.run("log", "inspect", ...where);
  assert.match(text.output, /control store: .*log\n.*\nshard 0: .*shard-0\/log\n.*\nshard 1: /s);
  const found: unknown[] = [];
  for (const shard of ["0", "1"]) {
    const of = [...where, "--shard", shard, "--task", ids[0] as string, "--json"];
    const one = JSON.parse((await cli.run("log", "inspect", ...of)).output);
    assert.equal(one.shard, Number(shard));
    found.push(...one.records);
  }
  assert.equal(found.length, 1, "a task is in the log of one shard");
  const unknown = await cli.run("log", "inspect", ...where, "--shard", "2");
  assert.equal(unknown.code, 2);
  assert.match(unknown.errors, /there is no shard 2.*\n.*there are control, 0, 1/s);

  const examine = async (...args: readonly string[]): Promise<Record<string, string>[]> => {
    const alone = ["--base-url", "http://127.0.0.1:1", "--port", "0", "--json"];
    return JSON.parse((await cli.run("doctor", ...where, ...alone, ...args)).output).checks;
  };
  const of = (checks: readonly Record<string, string>[], check: string): string[] =>
    checks
      .filter((each) => each["check"] === check)
      .map(({ verdict, found: what }) => `${verdict}: ${what}`);
  const sound = await examine("--shards", "2");
  assert.deepEqual(of(sound, "shards"), ["ok: 2"]);
  assert.deepEqual(
    of(sound, "store files").map((line) => line.split(":", 2).join(":")),
    ["ok: control store", "ok: shard 0", "ok: shard 1"],
  );
  assert.deepEqual(of(await examine(), "shards"), [
    "fail: the data has 2, the configuration has 1",
  ]);
  renameSync(join(dataDir, "shard-0"), `${dataDir}-0`);
  assert.deepEqual(of(await examine("--shards", "2"), "shards"), [
    "fail: the directory of shard 0 is missing",
  ]);
  renameSync(`${dataDir}-0`, join(dataDir, "shard-0"));

  const made = spawnServer({
    dataDir,
    env: { CODEQ_SHARDS: "2" },
    args: ["keys", "create", "--tenant=acme", "--name=ci", "--scopes=codeq:create"],
  });
  assert.equal((await made.exited).code, 0);
  assert.equal((await cli.run("shards", "migrate", "--to", "1", ...where)).code, 0);
  const listed = await spawnServer({ dataDir, args: ["keys", "list"] }).exited;
  assert.equal(JSON.parse(listed.stdout).name, "ci");
});

test("Ctrl-C leaves the old data, and the command can be run again", async (t) => {
  const { dataDir, cli, start } = setup(t);
  const { server, api } = await start(1);
  const ids = await createAll(api, keys);
  await server.stop();
  const argv = ["shards", "migrate", "--to", "2", "--data-dir", dataDir];
  const child = startCommand(argv, { directory: cli.directory, env: {} });
  // The first line is written when tasks have been copied.
  const errors = child.process.stderr;
  await new Promise<void>((resolve) => errors?.once("data", () => resolve()));
  child.signal("SIGINT");
  await child.exited;
  const again = await cli.run(...argv, "--json");
  assert.equal(again.code, 0, again.errors);
  const next = await start(2);
  assert.deepEqual(await createAll(next.api, keys), ids);
});
