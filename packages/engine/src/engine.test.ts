import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../simulated/src/index.ts";
import {
  EngineWorld,
  type EngineWorldOptions,
  everything,
  standing,
} from "../test/engine-world.ts";
import { sealed } from "../test/sealed.ts";
import { countKeys } from "../test/things.ts";
import { create, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import type { Derive } from "./flusher.ts";

async function setup(
  options: EngineWorldOptions = {},
): Promise<{ world: EngineWorld; engine: Engine }> {
  const world = new EngineWorld(options);
  return { world, engine: await world.open() };
}

function text(value: Buffer | undefined): string | undefined {
  return value?.toString();
}

test("a read sees a batch as soon as it is committed, before it is durable", async () => {
  const { engine } = await setup();
  const { done } = engine.commit([], [create("a", "1"), create("b", "2")]);
  assert.equal(text(engine.get("a")), "1");
  assert.notEqual(engine.whenDurable("a"), undefined);
  assert.deepEqual(await everything(engine), [
    ["a", "1"],
    ["b", "2"],
  ]);
  await done;
  assert.equal(engine.whenDurable("a"), undefined);
  assert.equal(engine.whenDurable("never written"), undefined);
});

test("a commit is done only after its record is synced", async () => {
  const { world, engine } = await setup();
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const { done } = engine.commit([], [put("a", "1")]);
  assert.equal(await standing(done), "pending");
  assert.equal(await standing(engine.whenDurable("a")!), "pending");
  gate.resolve();
  await done;
  assert.equal(engine.stats().durableIndex, 1);
});

test("what arrives while a record is written shares the next one", async () => {
  const { world, engine } = await setup();
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const first = engine.commit([], [put("a", "1")]);
  await settle();
  const others = Array.from({ length: 20 }, (_, n) => engine.commit([], [put(`b${n}`, "2")]));
  gate.resolve();
  await Promise.all([first, ...others].map(({ done }) => done));
  assert.deepEqual(world.groups, [1, 20]);
  assert.deepEqual(new Set(others.map(({ index }) => index)), new Set([2]));
});

test("a deleted key waits for its deletion, and is gone from scans at once", async () => {
  const { engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  await engine.flushNow();
  engine.commit([], [remove("a")]);
  assert.equal(engine.get("a"), undefined);
  assert.notEqual(engine.whenDurable("a"), undefined);
  assert.deepEqual(await everything(engine), []);
});

test("a scan is what it was when it began, whatever is committed and flushed meanwhile", async () => {
  const { engine } = await setup();
  await engine.commit([], [put("a", "1"), put("c", "3")]).done;
  await engine.flushNow();
  engine.commit([], [put("b", "2")]);
  const scan = everything(engine);
  await engine.commit([], [remove("a"), remove("b"), put("c", "changed"), put("d", "4")]).done;
  await engine.flushNow();
  assert.deepEqual(await scan, [
    ["a", "1"],
    ["b", "2"],
    ["c", "3"],
  ]);
});

test("a flush writes the net effect only", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [create("kept", "1"), create("gone", "1"), put("replaced", "1")]).done;
  await engine.commit([], [remove("gone"), put("replaced", "2")]).done;
  await engine.flushNow();
  assert.deepEqual(world.kvWrites.at(-1), ["kept", "replaced", "codeq/meta/position"]);
  await engine.commit([], [remove("kept"), create("kept", "2"), create("brief", "x")]).done;
  await engine.commit([], [remove("brief"), remove("replaced")]).done;
  await engine.flushNow();
  assert.deepEqual(world.kvWrites.at(-1), ["kept", "-replaced", "codeq/meta/position"]);
  assert.deepEqual(world.stored(), [["kept", "2"]]);
});

test("a flush with nothing new writes nothing", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  await engine.flushNow();
  await engine.flushNow();
  assert.equal(world.kvWrites.length, 1);
});

test("derived keys follow from the net effect and are written with it", async () => {
  const seen: [string, string | undefined, boolean][][] = [];
  const derive: Derive = ({ entries }, get) => {
    const net = [...entries].map(
      ([key, { value, born }]): [string, string | undefined, boolean] => [key, text(value), born],
    );
    seen.push(net);
    const before = Number(text(get("total")) ?? 0);
    return [{ key: "total", value: Buffer.from(String(before + net.length)) }];
  };
  const { world, engine } = await setup({ derive });
  await engine.commit([], [create("a", "1"), create("b", "2"), remove("b"), put("c", "3")]).done;
  await engine.flushNow();
  await engine.commit([], [remove("a")]).done;
  await engine.flushNow();
  assert.deepEqual(seen, [
    [
      ["a", "1", true],
      ["c", "3", false],
    ],
    [["a", undefined, false]],
  ]);
  assert.deepEqual(world.kvWrites.at(-1), ["-a", "total", "codeq/meta/position"]);
  assert.equal(text(engine.get("total")), "3");
});

test("a generation that is large enough is flushed by itself, in the background", async () => {
  const { world, engine } = await setup({ flushBytes: 4096 });
  for (let n = 0; n < 60; n += 1) await engine.commit([], [put(`key ${n}`, "x".repeat(100))]).done;
  await settle();
  assert.ok(world.flushes.length >= 2, `${world.flushes}`);
  assert.ok(engine.stats().overlayEntries < 60);
  assert.equal((await everything(engine)).length, 60);
});

test("flushed records leave the log", async () => {
  const { world, engine } = await setup({ flushBytes: 4096, segmentBytes: 2048 });
  for (let n = 0; n < 200; n += 1) await engine.commit([], [put(`key ${n}`, "x".repeat(100))]).done;
  await engine.flushNow();
  assert.equal(world.position, 200);
  assert.ok(engine.stats().logBytes <= 3 * 2048, `${engine.stats().logBytes}`);
});

test("appends wait while the flush falls behind, and go on when it has caught up", async () => {
  const { world, engine } = await setup({ flushBytes: 4096 });
  const gate = Promise.withResolvers<void>();
  world.beforeWrite = () => gate.promise;
  const commits: Promise<void>[] = [];
  for (let n = 0; n < 200; n += 1) {
    commits.push(engine.commit([], [put(`key ${n}`, "x".repeat(100))]).done);
    await settle(1);
  }
  assert.equal(await standing(commits.at(-1)!), "pending");
  assert.ok(engine.stats().overlayBytes < 200 * 330);
  assert.ok(engine.stats().waitingBytes > 0);
  const stalls = (): number[] => [engine.stats().writeStalls, engine.stats().writeStallSeconds];
  assert.deepEqual(stalls(), [1, 0]);
  await world.clock.advance(1500);
  assert.deepEqual(stalls(), [1, 1.5]);
  gate.resolve();
  await Promise.all(commits);
  await world.clock.advance(1000);
  assert.deepEqual(stalls(), [1, 1.5]);
  assert.equal((await everything(engine)).length, 200);
});

test("flushNow during a background flush keeps every key readable and the order of flushes", async () => {
  const { world, engine } = await setup({ flushBytes: 4096, derive: countKeys });
  const gates: PromiseWithResolvers<void>[] = [];
  world.beforeWrite = () => {
    gates.push(Promise.withResolvers<void>());
    return gates.at(-1)!.promise;
  };
  await engine.commit([], [create("key 0", "x")]).done;
  let n = 1;
  // The last group of a generation is not durable yet when the next generation begins.
  const synced = Promise.withResolvers<void>();
  world.disk.slow("sync", synced.promise);
  for (; n < 20; n += 1) engine.commit([], [create(`key ${n}`, "x".repeat(100))]);
  await settle();
  engine.commit([], [create(`key ${n++}`, "y")]);
  const flush = engine.flushNow();
  await settle();
  synced.resolve();
  await settle();
  for (let round = 0; round < 5; round += 1) {
    for (let each = 0; each < n; each += 1) assert.ok(engine.get(`key ${each}`), `key ${each}`);
    gates[round]?.resolve();
    await settle();
  }
  await flush;
  assert.equal(text(engine.get("count")), String(n));
  assert.equal(world.position, engine.stats().durableIndex);
});

test("closing finishes what was accepted, and a new engine has everything", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  const last = engine.commit([], [put("b", "2")]);
  await engine[Symbol.asyncDispose]();
  await last.done;
  assert.throws(() => engine.commit([], [put("c", "3")]), { code: "closed" });
  assert.deepEqual(world.stored(), [
    ["a", "1"],
    ["b", "2"],
  ]);
  const next = await world.open();
  assert.deepEqual(await everything(next), world.stored());
  assert.equal(next.stats().overlayEntries, 0);
  await engine[Symbol.asyncDispose]();
});

test("closing leaves no timer behind, also when a sync is under way", async () => {
  const { world, engine } = await setup({ durability: "interval", syncIntervalMs: 100 });
  await engine.commit([], [put("a", "1")]).done;
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  await world.clock.advance(100);
  const closing = engine[Symbol.asyncDispose]();
  await settle();
  gate.resolve();
  await closing;
  await settle();
  assert.equal(world.clock.timers, 0);
  assert.deepEqual(world.states, []);
});

test("recovery replays exactly what the kv does not have", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [create("a", "1"), put("b", "1")]).done;
  await engine.flushNow();
  await engine.commit([], [remove("a"), put("b", "2")]).done;
  await engine.commit([], [create("c", "3")]).done;
  world.crash("process");
  const writesBefore = world.kvWrites.length;
  const next = await world.open();
  assert.deepEqual(await everything(next), [
    ["b", "2"],
    ["c", "3"],
  ]);
  assert.deepEqual(world.kvWrites.slice(writesBefore), [["-a", "b", "c", "codeq/meta/position"]]);
  assert.equal(world.position, 3);
  assert.equal((await next.commit([], [put("d", "4")])).index, 4);
});

test("a kv that is ahead of its log is refused, and so is a log that starts behind a gap", async () => {
  const { world, engine } = await setup({ segmentBytes: 1024 });
  for (let n = 0; n < 30; n += 1) await engine.commit([], [put(`k${n}`, "x".repeat(100))]).done;
  await engine[Symbol.asyncDispose]();
  const position = world.contents.get("codeq/meta/position")!;
  world.contents.set("codeq/meta/position", sealed("codeq/meta/position", "31"));
  await assert.rejects(world.open(), { code: "corrupt", message: /belong together/ });
  world.contents.set("codeq/meta/position", sealed("codeq/meta/position", "3"));
  await assert.rejects(world.open(), { code: "corrupt", message: /belong together/ });
  world.contents.set("codeq/meta/position", position);
  await world.open();
});

test("with an interval the log is synced within it, and not when nothing is new", async () => {
  const { world, engine } = await setup({ durability: "interval", syncIntervalMs: 100 });
  const startedMs = world.clock.monotonicMs();
  await engine.commit([], [put("a", "1")]).done;
  assert.deepEqual(world.syncs, []);
  await world.clock.advance(99);
  assert.deepEqual(world.syncs, []);
  await world.clock.advance(1);
  assert.deepEqual(world.syncs, [startedMs + 100]);
  await world.clock.advance(1000);
  assert.equal(world.syncs.length, 1);
  await engine.commit([], [put("b", "1")]).done;
  await world.clock.advance(100);
  assert.equal(world.syncs.length, 2);
});

test("a slow sync does not move the ones after it", async () => {
  const { world, engine } = await setup({ durability: "interval", syncIntervalMs: 100 });
  const startedMs = world.clock.monotonicMs();
  await engine.commit([], [put("a", "1")]).done;
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  await world.clock.advance(160);
  gate.resolve();
  await settle();
  await engine.commit([], [put("b", "1")]).done;
  await world.clock.advance(40);
  assert.deepEqual(world.syncs, [startedMs + 160, startedMs + 200]);
});

test("a failed sync is final: nothing more is accepted or acknowledged", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  world.disk.failNext("sync", "EIO");
  const first = engine.commit([], [put("b", "1")]);
  await settle(1);
  assert.equal(await standing(first.done), "storage_failed");
  assert.equal(engine.state, "failed");
  assert.deepEqual(world.states, ["failed"]);
  assert.throws(() => engine.commit([], [put("c", "1")]), { code: "storage_failed" });
  assert.throws(() => engine.assertWritable(), { code: "storage_failed" });
  await assert.rejects(engine.whenDurable("b")!, { code: "storage_failed" });
  await engine[Symbol.asyncDispose]();
  assert.deepEqual(world.stored(), []);
});

test("a failed sync that somebody asked for is final, too", async () => {
  const { world, engine } = await setup({ durability: "os" });
  await engine.commit([], [put("a", "1")]).done;
  world.disk.failNext("sync", "ENOSPC");
  await assert.rejects(engine.sync(), { code: "storage_failed" });
  assert.equal(engine.state, "failed");
  assert.throws(() => engine.assertWritable(), { code: "storage_failed" });
});

test("a failed background sync rejects what waits, also the record that is being written", async () => {
  const { world, engine } = await setup({ durability: "interval", syncIntervalMs: 100 });
  await engine.commit([], [put("a", "1")]).done;
  const gate = Promise.withResolvers<void>();
  world.disk.slow("write", gate.promise);
  const writing = engine.commit([], [put("b", "1")]);
  await settle();
  const waiting = engine.commit([], [put("c", "1")]);
  world.disk.failNext("sync", "EIO");
  await world.clock.advance(100);
  assert.equal(engine.state, "failed");
  gate.resolve();
  assert.equal(await standing(writing.done), "storage_failed");
  assert.equal(await standing(waiting.done), "storage_failed");
});

test("a kv that fails for good rejects what waits for it, and opening with it fails", async () => {
  const { world, engine } = await setup({ flushBytes: 4096 });
  const gate = Promise.withResolvers<void>();
  world.beforeWrite = () => gate.promise;
  const commits: Promise<void>[] = [];
  for (let n = 0; n < 200; n += 1) {
    commits.push(engine.commit([], [put(`key ${n}`, "x".repeat(100))]).done);
    await settle(1);
  }
  gate.reject(new Error("the kv is broken"));
  assert.equal(await standing(commits.at(-1)!), "storage_failed");
  assert.equal(engine.state, "failed");
  world.crash("process");
  world.beforeWrite = () => Promise.reject(new Error("still broken"));
  await assert.rejects(world.open(), { code: "storage_failed" });
});

/** Writes after every group how many batches there have been. */
function countBatches(engine: Engine): () => void {
  let batches = 0;
  let written = 0;
  engine.onClosing = () => {
    if (written === batches) return [];
    written = batches;
    return [put("sum", String(batches))];
  };
  return () => {
    batches += 1;
  };
}

test("what is added when a group closes is in its record, once, however many batches it has", async () => {
  const { world, engine } = await setup();
  const count = countBatches(engine);
  const commits = [];
  for (let n = 0; n < 2500; n += 1) {
    commits.push(engine.commit([], [create(`key ${n}`, "")]).done);
    count();
  }
  assert.equal(text(engine.get("sum")), "2048");
  await Promise.all(commits);
  assert.equal(text(engine.get("sum")), "2500");
  assert.deepEqual(world.groups, [1024, 1024, 452]);
  world.crash("process");
  const again = await world.open();
  assert.equal(text(again.get("sum")), "2500");
});

test("what is added when a group closes is lost with it, and only with it", async () => {
  for (let lost = 1; lost <= 6; lost += 1) {
    const { world, engine } = await setup({ flushBytes: 600, seed: lost });
    const count = countBatches(engine);
    for (let n = 0; n < 6; n += 1) {
      if (n === lost) world.disk.slow("sync", new Promise(() => {}));
      void engine.commit([], [create(`key ${n}`, "x".repeat(100))]);
      count();
      await settle();
    }
    world.crash("power");
    const again = await world.open();
    const keys = (await everything(again)).filter(([key]) => key.startsWith("key"));
    assert.equal(Number(text(again.get("sum")) ?? 0), keys.length);
    assert.ok(keys.length >= Math.min(lost, 6));
  }
});

test("a full group is flushed together with what was added when it closed", async () => {
  const { world, engine } = await setup({ flushBytes: 1000 });
  const count = countBatches(engine);
  for (let n = 0; n < 1025; n += 1) {
    void engine.commit([], [create(`key ${n}`, "")]);
    count();
  }
  // The record behind it never gets to the disk.
  world.beforeDisk = (operation) =>
    operation === "write" && world.groups.length > 0 ? new Promise(() => {}) : Promise.resolve();
  await settle();
  assert.equal(engine.stats().flushedIndex, 1);
  world.crash("process");
  assert.equal(text((await world.open()).get("sum")), "1024");
});

test("a turn that brings many times what memory may hold back is written all the same", async () => {
  const { engine } = await setup({ flushBytes: 1000 });
  const value = "x".repeat(1024 * 1024);
  const commits = Array.from({ length: 6 }, (_, n) =>
    engine.commit([], [create(`key ${n}`, value)]),
  );
  await settle();
  assert.equal(engine.stats().durableIndex, commits.at(-1)?.index);
  await Promise.all(commits.map(({ done }) => done));
});
