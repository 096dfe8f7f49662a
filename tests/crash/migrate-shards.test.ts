/**
 * The number of shards can be changed without losing or doubling anything, whenever the process ends.
 * CODEQ_SEED repeats the choices of a run; what the operating system does in between is its own.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type Op, openFiles, put, remove } from "@codeq/engine";
import type { TaskId, TenantId } from "@codeq/queue";
import { SimClock, SimRandom } from "@codeq/simulated";
import { shardOf, shardOfKey } from "../../packages/server/src/core/shards/shard-of.ts";
import { keptKeyOf } from "../../packages/server/src/core/store/keys.ts";
import { lockDataDir, settleDataDir } from "../../packages/server/src/start/open-data-dir.ts";
import {
  abortMigration,
  type Migrated,
  type MigrateParts,
  migrateShards,
} from "../../packages/server/src/start/shards/migrate-shards.ts";
import { Child, endOfServer, temporaryDirectory } from "../e2e/server-process.ts";
import { configOf, fewTasksSegmentBytes } from "./directory-config.ts";
import { type Contents, fillDirectory, readContents } from "./filled-directory.ts";
import { openStore } from "./open-store.ts";

const seed = process.env["CODEQ_SEED"] ?? String(Date.now());

interface Setup {
  readonly dataDir: string;
  readonly before: Contents;
}

async function setup(t: TestContext, tasks: number): Promise<Setup> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const dataDir = join(directory.path, "data");
  await fillDirectory(dataDir, tasks, fewTasksSegmentBytes);
  return { dataDir, before: await readContents(dataDir, 1) };
}

function migrate(
  dataDir: string,
  to: number,
  parts: Partial<MigrateParts> = {},
): Promise<Migrated> {
  const made = { clock: new SimClock(), segmentBytes: fewTasksSegmentBytes };
  return migrateShards(to, { config: configOf(dataDir), ...made, ...parts });
}

/**
 * Runs until it has made so many steps and is killed in what it does next, so many milliseconds later; true when it
 * came to its end.
 */
async function migrateAndKill(
  dataDir: string,
  to: number,
  { steps, afterMs = 0 }: { readonly steps: number; readonly afterMs?: number },
): Promise<boolean> {
  const program = join(import.meta.dirname, "migrate-child.ts");
  const args = ["--conditions=source", program, dataDir, String(to)];
  const spawned = spawn(process.execPath, args);
  const child = new Child(spawned);
  // It may have ended.
  spawned.stdin.on("error", () => {});
  let seen = 0;
  await child
    .line(() => {
      seen += 1;
      spawned.stdin.write(".");
      return seen === steps;
    })
    .then(
      () => setTimeout(() => spawned.kill("SIGKILL"), afterMs),
      () => {},
    );
  const { code, signal, stderr } = await child.exited;
  assert.ok(code === 0 || signal === "SIGKILL", stderr);
  return code === 0;
}

async function assertSame(dataDir: string, shards: number, before: Contents): Promise<void> {
  const after = await readContents(dataDir, shards);
  assert.deepEqual(after.entries, before.entries);
  const [sequence] = before.sequences;
  assert.deepEqual(
    after.sequences,
    Array.from({ length: shards }, () => sequence),
  );
}

/** The error of a change that a step makes fail, as a lost process would. */
async function stopAt(dataDir: string, to: number, step: RegExp): Promise<void> {
  const stopped = new Error("stopped");
  const onStep = (what: string): void => {
    if (step.test(what)) throw stopped;
  };
  await assert.rejects(migrate(dataDir, to, { onStep }), stopped);
}

async function keysOf(directory: string): Promise<string[]> {
  await using engine = await openStore(directory);
  return await engine.scanKeys({ after: "codeq/", before: "codeq/~" }, 100_000);
}

/** Changes one key of a store; returns how to undo it. */
async function change(directory: string, op: Op): Promise<() => Promise<unknown>> {
  await using engine = await openStore(directory);
  const value = engine.get(op.key);
  await engine.commit([], [op]).done;
  return () => change(directory, value === undefined ? remove(op.key) : put(op.key, value));
}

/** Makes values unreadable. */
async function damage(directory: string, keys: readonly string[]): Promise<void> {
  const { kv, log } = await openFiles(directory, {
    durability: "fsync",
    monotonicMs: () => 0,
    newStoreId: () => assert.fail("a server has been there"),
    onRepair: assert.fail,
  });
  const batch = kv.batch();
  for (const key of keys) batch.put(key, Buffer.from("nonsense"));
  await batch.write({ sync: true });
  await kv.files?.noteWritten(log.lastIndex);
  await kv.files?.makeDurable();
  await log.close();
  await kv.close();
}

test("1 -> 4 -> 3 -> 1: everything is there, in its shard, and nothing twice", async (t) => {
  const { dataDir, before } = await setup(t, 1200);
  let from = 1;
  for (const to of [4, 3, 1]) {
    const told: number[] = [];
    const onProgress: MigrateParts["onProgress"] = ({ tasks, total }) => {
      assert.equal(total, 1200);
      told.push(tasks);
    };
    const migrated = await migrate(dataDir, to, { onProgress });
    assert.deepEqual(migrated, { from, to, tasks: 1200, setAside: 0, isResumed: false });
    assert.equal(told.filter((tasks) => tasks === 1200).length, 2, "copied and verified");
    await assertSame(dataDir, to, before);
    from = to;
  }
  const again = await migrate(dataDir, 1);
  assert.deepEqual(again, { from: 1, to: 1, tasks: 0, setAside: 0, isResumed: false });
});

test("kill -9 at any moment: the next run starts over or goes on, and nothing is lost or doubled", async (t) => {
  const { dataDir, before } = await setup(t, 1100);
  const random = new SimRandom(seed);
  const someMoment = (): { steps: number; afterMs: number } => ({
    steps: 1 + random.int(50),
    afterMs: random.int(12),
  });
  let kills = 0;
  for (let round = 0; round < 2 || (kills < 4 && round < 10); round += 1) {
    const to = round % 2 === 0 ? 3 : 2;
    while (!(await migrateAndKill(dataDir, to, someMoment()))) kills += 1;
    await assertSame(dataDir, to, before);
  }
  t.diagnostic(`${kills} kills, seed ${seed}`);
  assert.ok(kills > 3, "too few kills");
});

test("kill -9 while the stores change places: the next run goes on from each step", async (t) => {
  const { dataDir, before } = await setup(t, 40);
  await migrate(dataDir, 2);
  await stopAt(dataDir, 3, /^new-stores complete/);
  let kills = 0;
  // Each run makes one step and is killed in the next.
  while (!(await migrateAndKill(dataDir, 3, { steps: 1 }))) kills += 1;
  t.diagnostic(`${kills} kills`);
  assert.ok(kills > 3);
  await assertSame(dataDir, 3, before);
});

test("what every shard has to know is in each of the new ones", async (t) => {
  const { dataDir } = await setup(t, 10);
  const shared = ["codeq/paused/mail/acme", "codeq/endpoints/acme/x", "codeq/signing/acme"];
  for (const key of shared) await change(dataDir, put(key, "a record"));
  const own = ["codeq/deliveries/", "codeq/undelivered/acme/00000000000001/"];
  const [task = ""] = (await keysOf(dataDir)).filter((key) => key.startsWith("codeq/tasks/"));
  const id = task.slice("codeq/tasks/".length) as TaskId;
  for (const prefix of own) await change(dataDir, put(prefix + id, "a record"));
  await migrate(dataDir, 3);
  for (const shard of [0, 1, 2]) {
    const keys = await keysOf(join(dataDir, `shard-${shard}`));
    const found = keys.filter((key) => shared.includes(key) || own.some((o) => key.startsWith(o)));
    const isHome = shardOf(id, 3) === shard;
    const expected = isHome ? [...shared, ...own.map((prefix) => prefix + id)] : shared;
    assert.deepEqual(found.sort(), [...expected].sort());
  }
  await migrate(dataDir, 1);
  const keys = await keysOf(dataDir);
  for (const key of shared) assert.ok(keys.includes(key), key);
});

/** Where the number of shards has been changed as far as some step; undefined when there are fewer steps. */
async function stoppedAfter(
  filled: string,
  to: number,
  steps: number,
): Promise<Stopped | undefined> {
  const dataDir = `${filled}-${steps}`;
  cpSync(filled, dataDir, { recursive: true });
  let step = "";
  let seen = 0;
  const stopped = new Error("stopped");
  const onStep = (what: string): void => {
    step = what;
    seen += 1;
    if (seen === steps) throw stopped;
  };
  const failure = await migrate(dataDir, to, { onStep }).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (failure === undefined) return undefined;
  assert.equal(failure, stopped);
  return { dataDir, step };
}

interface Stopped {
  readonly dataDir: string;
  /** The last one. */
  readonly step: string;
}

test("a crash at any step leaves the old data before the rename and the new data after it", async (t) => {
  const { dataDir: filled, before } = await setup(t, 40);
  await migrate(filled, 2);
  let shards = 2;
  let steps = 0;
  for (;;) {
    const stopped = await stoppedAfter(filled, 1, steps + 1);
    if (stopped === undefined) break;
    steps += 1;
    if (stopped.step === "new-stores complete") shards = 1;
    const { dataDir } = stopped;
    // As the next start does it, and the one after it.
    await settleDataDir(configOf(dataDir));
    await settleDataDir(configOf(dataDir));
    await assertSame(dataDir, shards, before);
    rmSync(dataDir, { recursive: true });
  }
  t.diagnostic(`${steps} steps`);
  assert.equal(shards, 1);
  assert.ok(steps > 15);
});

test("a server starts with the old data before the rename and with the new data after it", async (t) => {
  const { dataDir, before } = await setup(t, 40);
  await stopAt(dataDir, 3, /^verify/);
  const early = await endOfServer({ dataDir, env: { CODEQ_SHARDS: "3" } });
  assert.equal(early.code, 4);
  assert.match(early.stderr, /created with shards=1.*codeq shards migrate --to 3/s);
  await assertSame(dataDir, 1, before);
  // An interrupted run can be repeated with another number, or cancelled.
  await stopAt(dataDir, 3, /^verify/);
  assert.equal((await migrate(dataDir, 2)).isResumed, true);
  await assertSame(dataDir, 2, before);
  await stopAt(dataDir, 3, /^verify/);
  assert.equal(await abortMigration({ config: configOf(dataDir) }), true);
  assert.equal(await abortMigration({ config: configOf(dataDir) }), false);
  await assertSame(dataDir, 2, before);
  await stopAt(dataDir, 1, /kv moved$/);
  await assert.rejects(abortMigration({ config: configOf(dataDir) }), /cannot be undone/);
  const late = await endOfServer({ dataDir, env: { CODEQ_SHARDS: "2" } });
  assert.match(late.stderr, /created with shards=1.*codeq shards migrate --to 2/s);
  await assertSame(dataDir, 1, before);
  await stopAt(dataDir, 2, /kv moved$/);
  const result = { from: 1, to: 2, tasks: 40, setAside: 0, isResumed: true };
  assert.deepEqual(await migrate(dataDir, 2), result);
  await assertSame(dataDir, 2, before);
});

test("the key of a task that is gone is dropped, and those of the others are found", async (t) => {
  const { dataDir } = await setup(t, 100);
  await migrate(dataDir, 4);
  const { entries } = await readContents(dataDir, 4);
  // One whose key and task are in different shards.
  const [key, taskId] = [...entries].flatMap(([each, text]) => {
    if (!each.startsWith("codeq/idempo/acme/")) return [];
    const [id] = JSON.parse(text) as [TaskId];
    const name = decodeURIComponent(each.slice("codeq/idempo/acme/".length));
    return shardOfKey("acme" as TenantId, name, 4) === shardOf(id, 4) ? [] : [[each, id] as const];
  })[0] as readonly [string, TaskId];
  const engine = await openStore(join(dataDir, `shard-${shardOf(taskId, 4)}`));
  const companions = [key, `codeq/payload/${taskId}`, `codeq/results/${taskId}`].map(remove);
  await engine.commit([{ before: engine.row(taskId), after: undefined }], companions).done;
  await engine[Symbol.asyncDispose]();
  const { tasks } = await migrate(dataDir, 3);
  assert.equal(tasks, 99);
  const after = await readContents(dataDir, 3);
  assert.equal(after.entries.has(key), false);
  assert.equal([...after.entries.keys()].filter((each) => each.includes("/idempo/")).length, 49);
});

test("the key of a deleted task goes to the shard that is asked for it, as long as it is kept", async (t) => {
  const { dataDir } = await setup(t, 20);
  await migrate(dataDir, 3);
  const gone = (untilMs: number): string =>
    JSON.stringify(["0", "work", "", "completed", 1, 2, untilMs]);
  const engine = await openStore(join(dataDir, "shard-2"));
  const kept = Number.MAX_SAFE_INTEGER;
  const writes = [
    put("codeq/idempo/acme/kept", gone(kept)),
    put(keptKeyOf(kept, "codeq/idempo/acme/kept"), ""),
    put("codeq/idempo/acme/over", gone(3)),
    put(keptKeyOf(3, "codeq/idempo/acme/over"), ""),
  ];
  await engine.commit([], writes).done;
  await engine[Symbol.asyncDispose]();
  await migrate(dataDir, 4);
  const shard = shardOfKey("acme" as TenantId, "kept", 4);
  const keys = await keysOf(join(dataDir, `shard-${shard}`));
  assert.ok(keys.includes("codeq/idempo/acme/kept"));
  assert.ok(keys.includes(keptKeyOf(kept, "codeq/idempo/acme/kept")));
  const { entries } = await readContents(dataDir, 4);
  assert.equal(entries.has("codeq/idempo/acme/over"), false);
});

test("a new store that is not what it should be is never used", async (t) => {
  const { dataDir, before } = await setup(t, 200);
  const shard = join(dataDir, "unfinished-stores", "shard-1");
  let keys: string[] = [];
  /** The new stores are changed after they were filled. */
  const migrateSpoiled = (spoil: () => Promise<unknown>): Promise<Migrated> => {
    const onStep = async (what: string): Promise<void> => {
      if (what === "copied") await spoil();
    };
    return migrate(dataDir, 2, { onStep });
  };
  const look = migrateSpoiled(async () => {
    keys = await keysOf(shard);
    assert.fail("enough was seen");
  });
  await assert.rejects(look, /enough was seen/);
  const some = (prefix: string): string => keys.find((key) => key.startsWith(prefix)) as string;
  const spoiled = [
    ["payload", remove(some("codeq/payload/"))],
    ["result", remove(some("codeq/results/"))],
    ["webhook", remove(some("codeq/webhook/"))],
    ["number of tries", put(some("codeq/webhook/"), "3")],
    ["idempotency key", remove(some("codeq/idempo/"))],
    ["another key", put("codeq/idempo/acme/other", '["1","work",""]')],
    ["stored bytes", put(some("codeq/bytes/"), "1")],
    ["counts", put(some("codeq/counts/"), "1 0 0 0 0")],
    ["index key", remove(some("codeq/q/"))],
    ["sequence", remove("codeq/meta/sequence")],
    ["what nobody had", put(`codeq/webhook/00000000000001/${"0".repeat(36)}`, "0")],
  ] as const;
  for (const [what, op] of spoiled) {
    const refused = migrateSpoiled(() => change(shard, op));
    await assert.rejects(refused, /differs between the old and the new/, what);
  }
  const tasks = keys.filter((key) => key.startsWith("codeq/tasks/"));
  const withoutTask = migrateSpoiled(async () => {
    await using engine = await openStore(shard);
    const row = engine.row((tasks[0] as string).slice("codeq/tasks/".length));
    await engine.commit([{ before: row, after: undefined }]).done;
  });
  await assert.rejects(withoutTask, /the record codeq\/tasks\/.* differs/);
  // The old stores were never touched.
  assert.equal(await abortMigration({ config: configOf(dataDir) }), true);
  await assertSame(dataDir, 1, before);
  await migrate(dataDir, 2);
  await assertSame(dataDir, 2, before);
});

test("keys that the store does not tell apart have the same shard", () => {
  const ofKey = (key: string): number => shardOfKey("acme" as TenantId, key, 61);
  assert.equal(ofKey("half \ud800"), ofKey("half \ufffd"));
});

test("what cannot be read stops the change, or is set aside when that is asked for", async (t) => {
  const { dataDir } = await setup(t, 100);
  const keys = await keysOf(dataDir);
  const withResult = keys.find((key) => key.startsWith("codeq/results/")) as string;
  const idOf = (key: string): TaskId => key.slice(key.lastIndexOf("/") + 1) as TaskId;
  const task = keys.find(
    (key) => key.startsWith("codeq/tasks/") && idOf(key) !== idOf(withResult),
  ) as string;
  await damage(dataDir, [task, withResult]);
  await assert.rejects(migrate(dataDir, 2), /cannot be read. The data is unchanged.*--set-aside/);
  assert.equal(await abortMigration({ config: configOf(dataDir) }), true);
  const migrated = await migrate(dataDir, 2, { setsAsideDamaged: true });
  assert.deepEqual([migrated.tasks, migrated.setAside], [99, 2]);
  const shards = [join(dataDir, "shard-0"), join(dataDir, "shard-1")];
  const after = (await Promise.all(shards.map(keysOf))).flat();
  assert.equal(after.includes(task), false);
  for (const key of [task, withResult]) assert.ok(after.includes(`codeq/quarantine/${key}`), key);
  // Its result is damaged and not missing.
  const engine = await openStore(shards[shardOf(idOf(withResult), 2)] as string);
  assert.equal(engine.get(withResult)?.length, 0);
  await engine[Symbol.asyncDispose]();
  assert.equal((await migrate(dataDir, 1, { setsAsideDamaged: true })).tasks, 99);
});

test("what is in use, missing, a link or a stranger is refused, and nothing is changed", async (t) => {
  const { dataDir, before } = await setup(t, 40);
  const lock = await lockDataDir(dataDir);
  await assert.rejects(migrate(dataDir, 2), { code: "locked" });
  await lock[Symbol.asyncDispose]();
  mkdirSync(join(dataDir, "shard-7"));
  await assert.rejects(migrate(dataDir, 2), /shard-7 does not belong to the data/);
  renameSync(join(dataDir, "shard-7"), `${dataDir}-shard-7`);
  await assert.rejects(migrate(`${dataDir}-none`, 2), /there is no data in/);
  await migrate(dataDir, 2);
  renameSync(join(dataDir, "shard-1"), `${dataDir}-shard-1`);
  await assert.rejects(migrate(dataDir, 3), /shard-1 is missing or empty/);
  assert.equal(existsSync(join(dataDir, "shard-1")), false);
  symlinkSync(`${dataDir}-shard-1`, join(dataDir, "shard-1"));
  await assert.rejects(migrate(dataDir, 3), /shard-1 is a symbolic link or on another disk/);
  renameSync(join(dataDir, "shard-1"), `${dataDir}-link`);
  renameSync(`${dataDir}-shard-1`, join(dataDir, "shard-1"));
  await assertSame(dataDir, 2, before);
  // Two that changed their places.
  renameSync(join(dataDir, "shard-1"), `${dataDir}-shard-1`);
  renameSync(join(dataDir, "shard-0"), join(dataDir, "shard-1"));
  renameSync(`${dataDir}-shard-1`, join(dataDir, "shard-0"));
  await assert.rejects(migrate(dataDir, 3), /the directory of shard 0 holds shard 1/);
});
