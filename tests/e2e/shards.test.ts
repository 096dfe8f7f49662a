/** A server with several shards, as an operator sees it: starts that are refused, shards that fail. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { shardOf } from "../../packages/server/src/core/shards/shard-of.ts";
import { ApiClient, type Reply, type TaskJson } from "./api-client.ts";
import {
  endOfServer,
  type ServerProcess,
  startServer,
  temporaryDirectory,
} from "./server-process.ts";

const preload = import.meta.resolve("./failing-thread.ts");

interface World {
  readonly dataDir: string;
  start(env: Record<string, string>, nodeArgs?: readonly string[]): Promise<Started>;
}

interface Started {
  readonly server: ServerProcess;
  readonly api: ApiClient;
}

function setup(t: TestContext): World {
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  const directory = temporaryDirectory();
  stack.defer(() => directory.dispose());
  const dataDir = directory.path;
  return {
    dataDir,
    start: async (env, nodeArgs = []) => {
      const server = await startServer({ dataDir, env, nodeArgs });
      const api = new ApiClient(server.port);
      stack.defer(async () => {
        api.close();
        await server.kill();
      });
      return { server, api };
    },
  };
}

async function create(api: ApiClient, number: number): Promise<string> {
  const reply = await api.create({ command: "c", payload: { number } });
  assert.equal(reply.status, 202, reply.text);
  return (JSON.parse(reply.text) as TaskJson).id;
}

function createMany(api: ApiClient, count: number): Promise<string[]> {
  return Promise.all(Array.from({ length: count }, (_, at) => create(api, at)));
}

async function breakShard(server: ServerProcess): Promise<void> {
  const broken = server.line((line) => line === "the thread is broken");
  server.signal("SIGUSR2");
  await broken;
}

interface Health {
  readonly status: string;
  readonly storage: string;
  readonly shards: readonly { shard: number; state: string; error?: string }[];
}

async function health(api: ApiClient): Promise<Health> {
  const reply = await api.page("/healthz");
  assert.equal(reply.status, 200, reply.text);
  return JSON.parse(reply.text) as Health;
}

/** The shard says that it is open a moment before the router may use it. */
async function untilAllOpen(api: ApiClient): Promise<void> {
  while ((await health(api)).shards.some(({ state }) => state !== "open"));
}

const of = (shard: number) => (id: string) => shardOf(id as TaskId, 3) === shard;

test("a shard whose thread ends is started again, and the others go on meanwhile", async (t) => {
  const world = setup(t);
  const env = { CODEQ_SHARDS: "3", CODEQ_TEST_SHARD: "1", CODEQ_TEST_FAULT: "throw" };
  const { server, api } = await world.start(env, [`--import=${preload}`]);
  const ids = await createMany(api, 90);
  const claimed = JSON.parse((await api.post("/tasks/claim", {})).text) as TaskJson;
  assert.ok([0, 1, 2].every((shard) => ids.some(of(shard))));
  const isOpen = server.line((line) => line.includes("the shard is open again"));
  const ended = server.line((line) => line.includes("a shard failed"));
  // Requests are under way all the time.
  const replies: Reply[] = [];
  let isOver = false;
  const load = (async () => {
    for (let at = 0; !isOver; at += 1) {
      const more = Array.from({ length: 10 }, () => api.create({ command: "c", payload: at }));
      replies.push(...(await Promise.all(more)));
      const read = ids[at % ids.length] as string;
      const reply = await api.get(`/tasks/${read}`);
      assert.ok([200, 503].includes(reply.status), reply.text);
      if (!of(1)(read)) assert.equal(reply.status, 200, reply.text);
    }
  })();
  await breakShard(server);
  await ended;
  await isOpen;
  isOver = true;
  await load;
  for (const reply of replies) assert.ok([202, 503].includes(reply.status), reply.text);
  const made = replies.filter(({ status }) => status === 202);
  ids.push(...made.map(({ text }) => (JSON.parse(text) as TaskJson).id));
  await untilAllOpen(api);
  for (const id of ids) assert.notEqual(await api.task(id), undefined, id);
  const task = await api.task(claimed.id);
  assert.deepEqual([task?.status, task?.leaseToken], ["IN_PROGRESS", claimed.leaseToken]);
  const exit = await server.stop();
  assert.equal(exit.code, 0, exit.stderr);
  const again = await world.start({ CODEQ_SHARDS: "3" });
  for (const id of ids) assert.notEqual(await again.api.task(id), undefined, id);
});

test("a shard that cannot be started again at once is tried again", async (t) => {
  const world = setup(t);
  const faults = { CODEQ_TEST_FAULT: "throw", CODEQ_TEST_STARTS: "fail" };
  const env = { CODEQ_SHARDS: "3", CODEQ_TEST_SHARD: "0", ...faults };
  const { server, api } = await world.start(env, [`--import=${preload}`]);
  const ids = await createMany(api, 30);
  const failed = server.line((line) => line.includes("could not be opened again"));
  const isOpen = server.line((line) => line.includes("the shard is open again"));
  await breakShard(server);
  await failed;
  await isOpen;
  await untilAllOpen(api);
  for (const id of ids) assert.notEqual(await api.task(id), undefined, id);
});

test("a shard whose storage fails stops its tasks and no others, and health names it", async (t) => {
  const world = setup(t);
  const env = { CODEQ_SHARDS: "3", CODEQ_TEST_SHARD: "2", CODEQ_TEST_FAULT: "fdatasync" };
  const { server, api } = await world.start(env, [`--import=${preload}`]);
  const ids = await createMany(api, 90);
  await breakShard(server);
  // Those that went to the shard are refused until it is known to have failed.
  const refused: Reply[] = [];
  while (refused.length === 0) {
    const replies = await Promise.all(
      Array.from({ length: 30 }, () => api.create({ command: "c", payload: 1 })),
    );
    for (const reply of replies) {
      if (reply.status === 202) ids.push((JSON.parse(reply.text) as TaskJson).id);
      else refused.push(reply);
    }
  }
  for (const { status, text } of refused) {
    assert.equal(status, 503, text);
    assert.match(text, /storage failed/);
  }
  const { status, storage, shards } = await health(api);
  assert.deepEqual([status, storage], ["ok", "open"]);
  assert.deepEqual(
    shards.map(({ state }) => state),
    ["open", "open", "failed"],
  );
  assert.match(shards[2]?.error ?? "", /EIO/);
  const more = await createMany(api, 60);
  assert.equal(more.filter(of(2)).length, 0);
  ids.push(...more);
  const counted = await api.get("/admin/queues/c");
  const ready = ids.filter((id) => !of(2)(id)).length;
  const shown = JSON.parse(counted.text) as { ready: number; isPartial?: true };
  assert.deepEqual([shown.ready, shown.isPartial], [ready, true], "of the others, with a mark");
  assert.equal((await api.get("/admin/queues")).headers["codeq-partial"], "true");
  const claim = await api.post("/tasks/claim/batch", { count: 50 });
  assert.equal(claim.status, 200, claim.text);
  const tasks = (JSON.parse(claim.text) as { tasks: TaskJson[] }).tasks;
  assert.ok(tasks.length > 0 && tasks.every(({ id }) => !of(2)(id)));
  await server.kill();
  const again = await world.start({ CODEQ_SHARDS: "3" });
  for (const id of ids) assert.notEqual(await again.api.task(id), undefined, id);
});

test("a number of shards that cannot be is refused before anything is made", async (t) => {
  const { dataDir } = setup(t);
  const exit = await endOfServer({ dataDir, env: { CODEQ_SHARDS: "65" } });
  assert.equal(exit.code, 2, exit.stderr);
  assert.match(exit.stderr, /shards/i);
  assert.deepEqual(readdirSync(dataDir), []);
});

/** Segments of the log are larger, and hashing all of them takes seconds; a write also shows in their times. */
const smallBytes = 1024 * 1024;

interface BadStart {
  readonly name: string;
  readonly shards?: string;
  /** Pairs of names below the data directory; the first of each becomes the second. */
  readonly renamed?: readonly (readonly [from: string, to: string])[];
  readonly says: RegExp;
}

const badStarts: readonly BadStart[] = [
  {
    name: "with another number of shards",
    shards: "2",
    says: /created with shards=4, the configuration has shards=2.*shards migrate --to 2/,
  },
  {
    name: "with one shard",
    shards: "1",
    says: /created with shards=4, the configuration has shards=1/,
  },
  {
    name: "without the directory of a shard",
    renamed: [["shard-2", "elsewhere"]],
    says: /the directory of shard 2 is missing/,
  },
  {
    name: "with the directories of two shards swapped",
    renamed: [
      ["shard-1", "other"],
      ["shard-2", "shard-1"],
      ["other", "shard-2"],
    ],
    says: /the directory of shard (1 holds shard 2|2 holds shard 1)/,
  },
];

test("a start that does not fit the shards on disk is refused, and nothing is written", async (t) => {
  const { dataDir, start } = setup(t);
  const { server, api } = await start({ CODEQ_SHARDS: "4" });
  await createMany(api, 40);
  assert.equal((await server.stop()).code, 0);
  for (const { name, shards = "4", renamed = [], says } of badStarts) {
    await t.test(name, async () => {
      for (const [from, to] of renamed) renameSync(join(dataDir, from), join(dataDir, to));
      const before = contentsOf(dataDir);
      const exit = await endOfServer({ dataDir, env: { CODEQ_SHARDS: shards } });
      assert.equal(exit.code, 4, exit.stderr);
      assert.match(exit.stderr, says);
      assert.deepEqual(contentsOf(dataDir), before);
      for (const [from, to] of renamed.toReversed()) {
        renameSync(join(dataDir, to), join(dataDir, from));
      }
    });
  }
});

/** Names, sizes and times of all that is there, and the contents of what is small. */
function contentsOf(directory: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const { size, mtimeMs } = statSync(path);
    const bytes = entry.isFile() && size < smallBytes ? readFileSync(path, "latin1") : "";
    found[path.slice(directory.length)] = `${size} ${mtimeMs} ${bytes}`;
  }
  return found;
}
