/** Engines on real files that end without closing them: the next one opens a copy. */
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { added, thing, things } from "../test/things.ts";
import { put } from "./batch-codec.ts";
import { Engine } from "./engine.ts";
import { openFiles } from "./open-files.ts";

interface World {
  readonly directory: string;
  readonly repairs: string[];
  open(directory: string): Promise<Engine>;
  /** What a crash of the process would leave. */
  crashed(): string;
}

function setup(t: TestContext): World {
  const root = mkdtempSync(join(tmpdir(), "codeq-files-"));
  const stack = new AsyncDisposableStack();
  stack.defer(() => rmSync(root, { recursive: true, force: true }));
  t.after(() => stack.disposeAsync());
  const repairs: string[] = [];
  let copies = 0;
  const directory = join(root, "data");
  return {
    directory,
    repairs,
    open: async (at) => {
      const files = await openFiles(at, {
        durability: "fsync",
        monotonicMs: () => performance.now(),
        segmentBytes: 64 * 1024,
        newStoreId: () => 1 + Math.floor(performance.now() * 1000),
        onRepair: (what) => repairs.push(what),
      });
      return stack.use(await Engine.open({ ...files, ...options }));
    },
    crashed: () => {
      copies += 1;
      const copy = join(root, `copy-${copies}`);
      cpSync(directory, copy, { recursive: true });
      return copy;
    },
  };
}

const options = {
  rows: things,
  derive: () => [],
  observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
  clock: {
    nowMs: () => 1,
    monotonicMs: () => performance.now(),
    after: () => () => {},
  },
  defer: (run: () => void) => void setImmediate(run),
  minFreeBytes: 0,
  flushBytes: 1024 * 1024,
  syncIntervalMs: undefined,
};

/** LevelDB skips the rest of a block in its log where it finds damage. */
const blockBytes = 32 * 1024;

/** More than a block of the log, so that what is flushed next survives damage of this. */
async function flushed(engine: Engine, id: string): Promise<void> {
  const ops = [put(`k/${id}`, id), put(`l/${id}`, id.repeat(blockBytes))];
  await engine.commit([added(thing(id, "low", id.repeat(50)))], ops).done;
  await engine.flushNow();
}

test("damage in LevelDB's own log takes nothing that was acknowledged", async (t) => {
  const world = setup(t);
  const engine = await world.open(world.directory);
  for (const id of ["a", "b", "c"]) await flushed(engine, id);
  for (let share = 0; share < 10; share += 1) {
    const copy = world.crashed();
    const kv = join(copy, "kv");
    const [log] = readdirSync(kv).filter((name) => /^\d+\.log$/.test(name));
    const bytes = readFileSync(join(kv, log as string));
    const at = Math.floor((bytes.length * share) / 10);
    bytes[at] = (bytes[at] as number) ^ 1;
    writeFileSync(join(kv, log as string), bytes);
    const next = await world.open(copy);
    for (const id of ["a", "b", "c"]) {
      assert.equal(next.getText(`k/${id}`), id, `flipped at ${at}`);
      assert.deepEqual(next.row(id), thing(id, "low", id.repeat(50)));
    }
  }
});

test("the log is kept until the tables of the kv hold what it says", async (t) => {
  const world = setup(t);
  const engine = await world.open(world.directory);
  const segments = (at: string): number =>
    readdirSync(join(at, "log")).filter((name) => name.endsWith(".log")).length;
  const contents = "x".repeat(20_000);
  for (let n = 0; n < 20; n += 1) {
    await engine.commit([], [put(`k/${n}`, contents)]).done;
    await engine.flushNow();
  }
  assert.ok(segments(world.directory) > 5, "LevelDB holds them in memory");
  const copy = world.crashed();
  await engine.settle();
  assert.ok(segments(world.directory) <= 2, "they are in a table");
  const next = await world.open(copy);
  for (let n = 0; n < 20; n += 1) assert.equal(next.getText(`k/${n}`), contents);
  const later = await world.open(world.crashed());
  for (let n = 0; n < 20; n += 1) assert.equal(later.getText(`k/${n}`), contents);
  assert.deepEqual(world.repairs, []);
});

test("a second engine on the directory is refused and changes nothing", async (t) => {
  const world = setup(t);
  const engine = await world.open(world.directory);
  await flushed(engine, "a");
  const before = readdirSync(join(world.directory, "kv"));
  await assert.rejects(world.open(world.directory), { code: "locked" });
  assert.deepEqual(readdirSync(join(world.directory, "kv")), before);
});

test("log and kv of two stores are refused, whichever of them was exchanged", async (t) => {
  const [one, other] = [setup(t), setup(t)];
  for (const world of [one, other]) {
    const engine = await world.open(world.directory);
    await flushed(engine, "a");
    await engine.settle();
  }
  for (const folder of ["kv", "log"]) {
    const copy = one.crashed();
    rmSync(join(copy, folder), { recursive: true });
    cpSync(join(other.directory, folder), join(copy, folder), { recursive: true });
    await assert.rejects(one.open(copy), { code: "corrupt", message: /belongs to/ });
  }
});

test("a lost kv is made again from a log that goes back to the beginning, and else refused", async (t) => {
  const world = setup(t);
  const engine = await world.open(world.directory);
  await flushed(engine, "a");
  const early = world.crashed();
  rmSync(join(early, "kv"), { recursive: true });
  assert.equal((await world.open(early)).getText("k/a"), "a");
  assert.match(world.repairs.join(), /made again from the log/);
  for (let n = 0; n < 20; n += 1) await engine.commit([], [put("k", "x".repeat(20_000))]).done;
  await engine.settle();
  const late = world.crashed();
  rmSync(join(late, "kv"), { recursive: true });
  await assert.rejects(world.open(late), { code: "corrupt" });
});
