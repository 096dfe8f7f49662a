import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../simulated/src/index.ts";
import {
  EngineWorld,
  type EngineWorldOptions,
  everything,
  standing,
} from "../test/engine-world.ts";
import { textOf } from "../test/sealed.ts";
import { added, countKeys, removed, thing } from "../test/things.ts";
import { create, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import { FaultError } from "./fault.ts";

const plenty = Number.MAX_SAFE_INTEGER;
const mebibyte = 1024 * 1024;

async function setup(
  options: EngineWorldOptions = {},
): Promise<{ world: EngineWorld; engine: Engine; rollbacks: () => number }> {
  const world = new EngineWorld({ minFreeBytes: 1000, ...options });
  const engine = await world.open();
  let rollbacks = 0;
  engine.onRollback = async () => {
    rollbacks += 1;
  };
  return { world, engine, rollbacks: () => rollbacks };
}

/** No free byte is left, and what is written next needs some. */
async function fill(world: EngineWorld): Promise<void> {
  world.disk.capacityBytes = 0;
}

/** Bodies larger than a segment, so that every record needs room that is not prepared. */
function large(key: string): ReturnType<typeof put> {
  return put(key, "x".repeat(6000));
}

function diskFull(): FaultError {
  return new FaultError("disk_full", "no space left for the kv");
}

test("a full disk refuses what was not durable, undoes it and accepts again when there is room", async () => {
  const { world, engine, rollbacks } = await setup();
  await engine.commit([], [put("a", "1"), put("b", "1")]).done;
  await engine.flushNow();
  await engine.commit([], [put("b", "2"), create("c", "1")]).done;
  await fill(world);
  const refused = [engine.commit([], [large("d"), remove("a"), remove("c")])];
  await settle(1);
  await Promise.all(refused.map(({ done }) => assert.rejects(done, { code: "disk_full" })));
  assert.equal(engine.state, "full");
  assert.throws(() => engine.commit([], [put("e", "1")]), { code: "disk_full" });
  await settle();
  assert.equal(rollbacks(), 1);
  const expected = [
    ["a", "1"],
    ["b", "2"],
    ["c", "1"],
  ];
  assert.deepEqual(await everything(engine), expected);
  await world.clock.advance(5000);
  assert.equal(engine.state, "full");
  world.disk.capacityBytes = plenty;
  await world.clock.advance(1000);
  assert.equal(engine.state, "open");
  assert.deepEqual(world.states, ["full", "open"]);
  await engine.commit([], [large("d"), remove("a")]).done;
  world.crash("power");
  const next = await world.open();
  assert.deepEqual(
    (await everything(next)).map(([key]) => key),
    ["b", "c", "d"],
  );
});

test("everything that waits behind the refused record is refused with it", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  const gate = Promise.withResolvers<void>();
  world.disk.slow("open", gate.promise);
  await fill(world);
  const first = engine.commit([], [large("b")]);
  await settle();
  const second = engine.commit([], [put("a", "2")]);
  gate.resolve();
  assert.equal(await standing(first.done), "disk_full");
  assert.equal(await standing(second.done), "disk_full");
  assert.deepEqual(await everything(engine), [["a", "1"]]);
});

test("nobody is told of a refused change while it is being undone", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  await fill(world);
  const rebuilt = Promise.withResolvers<void>();
  engine.onRollback = () => rebuilt.promise;
  const refused = engine.commit([], [put("a", "2"), large("b")]);
  await assert.rejects(refused.done, { code: "disk_full" });
  const waiting = engine.whenDurable("b");
  if (engine.get("b") !== undefined) {
    assert.ok(waiting, "what is read has to be waited for");
    rebuilt.resolve();
    await waiting;
  }
  rebuilt.resolve();
  await settle();
  assert.equal(engine.get("b"), undefined);
  assert.equal(engine.get("a")?.toString(), "1");
});

test("batches are refused until whoever listens has started over", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  await fill(world);
  const rebuilt = Promise.withResolvers<void>();
  engine.onRollback = () => rebuilt.promise;
  const refused = engine.commit([], [large("b")]);
  await assert.rejects(refused.done, { code: "disk_full" });
  world.disk.capacityBytes = plenty;
  await world.clock.advance(5000);
  assert.throws(() => engine.commit([], [put("c", "1")]), { code: "disk_full" });
  rebuilt.resolve();
  await world.clock.advance(1000);
  await engine.commit([], [put("c", "1")]).done;
});

test("closing while refused batches are being undone does not keep them", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  await fill(world);
  const refused = engine.commit([], [put("a", "2"), large("b")]);
  const closed = engine[Symbol.asyncDispose]();
  await assert.rejects(refused.done, { code: "disk_full" });
  await closed;
  await settle();
  assert.equal(world.clock.timers, 0);
  world.disk.capacityBytes = plenty;
  const next = await world.open();
  assert.deepEqual(await everything(next), [["a", "1"]]);
});

test("a flush that is asked for while batches are being undone leaves them out", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  await fill(world);
  const refused = engine.commit([], [put("a", "2"), large("b")]);
  await assert.rejects(refused.done, { code: "disk_full" });
  await engine.flushNow().catch(() => {});
  await settle();
  assert.ok(!world.contents.has("b"));
  assert.notEqual(textOf(world.contents, "a"), "2");
});

test("a kv without room keeps the generation readable and is written once there is room", async () => {
  const { world, engine } = await setup({ flushBytes: 4096, derive: countKeys });
  let full = true;
  world.beforeWrite = () => (full ? Promise.reject(diskFull()) : Promise.resolve());
  let n = 0;
  while (engine.state === "open") {
    await engine.commit([], [create(`key ${n}`, "x".repeat(100))]).done;
    n += 1;
    assert.ok(n < 1000);
  }
  assert.equal(engine.state, "full");
  assert.equal((await everything(engine)).length, n);
  assert.throws(() => engine.commit([], [put("z", "1")]), { code: "disk_full" });
  await assert.rejects(engine.flushNow(), { code: "disk_full" });
  assert.equal((await everything(engine)).length, n);
  full = false;
  await world.clock.advance(1000);
  assert.equal(engine.state, "open");
  assert.ok(world.recoveries > 0);
  await engine.flushNow();
  assert.equal(world.contents.size, n + 2);
  assert.equal(engine.get("count")?.toString(), String(n));
});

test("a kv that finds no room again is tried again", async () => {
  const { world, engine } = await setup({ derive: countKeys });
  let failures = 3;
  world.beforeWrite = async () => {
    failures -= 1;
    if (failures >= 0) throw diskFull();
  };
  await engine.commit([], [create("a", "1")]).done;
  await assert.rejects(engine.flushNow(), { code: "disk_full" });
  await world.clock.advance(5000);
  assert.equal(engine.state, "open");
  assert.deepEqual(world.stored(), [
    ["a", "1"],
    ["count", "1"],
  ]);
});

test("recovering a kv that finds no room is tried again, too", async () => {
  const { world, engine } = await setup();
  let failures = 1;
  world.beforeWrite = async () => {
    failures -= 1;
    if (failures >= 0) throw diskFull();
  };
  let refusals = 2;
  world.beforeRecover = async () => {
    refusals -= 1;
    if (refusals >= 0) throw diskFull();
  };
  await engine.commit([], [create("a", "1")]).done;
  await assert.rejects(engine.flushNow(), { code: "disk_full" });
  await world.clock.advance(5000);
  assert.equal(engine.state, "open");
  assert.deepEqual(world.stored(), [["a", "1"]]);
});

test("a batch that the kv applied before it reported a full disk is not derived twice", async () => {
  const { world, engine } = await setup({ derive: countKeys });
  await engine.commit([], [create("a", "1"), create("b", "1")]).done;
  let failures = 1;
  world.afterWrite = async () => {
    failures -= 1;
    if (failures >= 0) throw diskFull();
  };
  await engine.flushNow().catch(() => {});
  await world.clock.advance(1000);
  assert.equal(engine.state, "open");
  await engine.flushNow();
  assert.equal(engine.get("count")?.toString(), "2");
});

test("a batch that shows only when the kv is reopened is taken into account, also after a rollback", async () => {
  const { world, engine, rollbacks } = await setup({ flushBytes: 4096, derive: countKeys });
  await engine.commit([], [create("a", "1")]).done;
  await engine.flushNow();
  await engine.commit([], [put("a", "2"), create("z", "x".repeat(4096))]).done;
  const gate = Promise.withResolvers<void>();
  world.hidesNext = true;
  world.beforeWrite = () => gate.promise;
  // Begins a generation, and with that the flush of the one before.
  await engine.commit([], [create("b", "1")]).done;
  await fill(world);
  const refused = engine.commit([], [large("c")]);
  await assert.rejects(refused.done, { code: "disk_full" });
  gate.resolve();
  await settle();
  assert.equal(rollbacks(), 1);
  await engine.readAhead(["a", "b"]);
  world.disk.capacityBytes = plenty;
  await world.clock.advance(1000);
  assert.equal(engine.state, "open");
  assert.equal(engine.getText("a"), "2");
  await engine.commit([], [remove("a")]).done;
  await engine.flushNow();
  assert.deepEqual(
    world.stored().map(([key]) => key),
    ["b", "count", "z"],
  );
  assert.equal(engine.get("count")?.toString(), "2");
});

test("a trim that finds no room neither repeats the flush nor stops the engine", async () => {
  const { world, engine } = await setup({ derive: countKeys, segmentBytes: 1024 });
  for (let n = 0; n < 20; n += 1) await engine.commit([], [create(`k${n}`, "x".repeat(100))]).done;
  world.disk.failNext("rename", "ENOSPC");
  world.disk.failNext("remove", "ENOSPC");
  await engine.flushNow().catch(() => {});
  await world.clock.advance(1000);
  assert.equal(engine.state, "open");
  await engine.commit([], [create("last", "1")]).done;
  await engine.flushNow();
  assert.equal(engine.get("count")?.toString(), "21");
});

test("log and kv out of room at the same time: both recover, nothing is lost", async () => {
  const { world, engine, rollbacks } = await setup({ flushBytes: 4096, derive: countKeys });
  let full = true;
  const gate = Promise.withResolvers<void>();
  world.beforeWrite = async () => {
    await gate.promise;
    if (full) throw diskFull();
  };
  for (let n = 0; n < 20; n += 1)
    await engine.commit([], [create(`key ${n}`, "x".repeat(100))]).done;
  assert.deepEqual(world.flushes, []);
  await fill(world);
  const refused = engine.commit([], [create("refused", "x".repeat(6000))]);
  await settle();
  gate.resolve();
  await assert.rejects(refused.done, { code: "disk_full" });
  await settle();
  assert.equal(rollbacks(), 1);
  assert.equal((await everything(engine)).length, 20);
  full = false;
  world.disk.capacityBytes = plenty;
  await world.clock.advance(2000);
  assert.equal(engine.state, "open");
  await engine.commit([], [create("after", "1")]).done;
  await engine.flushNow();
  assert.equal(engine.get("count")?.toString(), "21");
  assert.ok(world.recoveries > 0, "the kv has to be made writable again");
});

test("running low on space stops new batches before the disk is full, for the kv's sake too", async () => {
  const { world, engine } = await setup({ minFreeBytes: 1_000_000, flushBytes: 100_000_000 });
  const failures = { left: 1 };
  world.beforeWrite = async () => {
    failures.left -= 1;
    if (failures.left >= 0) throw diskFull();
  };
  world.disk.capacityBytes = 30_000_000;
  let n = 0;
  const written: Promise<void>[] = [];
  while (engine.state === "open" && n < 40) {
    written.push(engine.commit([], [put(`key ${n}`, "x".repeat(1_000_000))]).done);
    await Promise.allSettled(written);
    await settle();
    n += 1;
  }
  assert.equal(engine.state, "full");
  const before = await everything(engine);
  // The flush fails while the shortage is being waited for; neither forgets the other.
  await assert.rejects(engine.flushNow(), { code: "disk_full" });
  assert.deepEqual(await everything(engine), before);
  world.disk.capacityBytes = plenty;
  await world.clock.advance(2000);
  assert.equal(engine.state, "open");
  assert.ok(world.recoveries > 0, "the kv has to be made writable again");
  await engine.flushNow();
  assert.equal(world.stored().length, before.length);
});

test("a rollback that meets the recovery of the kv waits for it, and nothing opens before both", async () => {
  const { world, engine } = await setup({ derive: countKeys, flushBytes: 4096 });
  for (let n = 0; n < 20; n += 1)
    await engine.commit([], [create(`key ${n}`, "x".repeat(100))]).done;
  await engine.flushNow();
  for (let n = 20; n < 34; n += 1)
    await engine.commit([], [create(`key ${n}`, "x".repeat(100))]).done;
  world.beforeWrite = () => Promise.reject(diskFull());
  const writing = Promise.withResolvers<void>();
  world.disk.slow("write", writing.promise);
  const refused = engine.commit([], [create("refused", "x".repeat(6000))]);
  await settle();
  assert.equal(engine.state, "full");
  const recovered = Promise.withResolvers<void>();
  world.beforeRecover = () => recovered.promise;
  const rebuilt = Promise.withResolvers<void>();
  engine.onRollback = () => rebuilt.promise;
  await world.clock.advance(600);
  world.disk.capacityBytes = 0;
  writing.resolve();
  await assert.rejects(refused.done, { code: "disk_full" });
  await settle();
  world.disk.capacityBytes = plenty;
  world.beforeWrite = () => Promise.resolve();
  recovered.resolve();
  await world.clock.advance(2000);
  assert.equal(engine.state, "full");
  rebuilt.resolve();
  await world.clock.advance(2000);
  assert.equal(engine.state, "open");
  await engine.commit([], [create("last", "1")]).done;
  await engine.flushNow();
  assert.equal(engine.get("count")?.toString(), "35");
  assert.equal(engine.get("refused"), undefined);
  assert.equal((await everything(engine)).length, 36);
});

test("what was read ahead is not older than what the kv kept of a batch that it reported as failed", async () => {
  const { world, engine } = await setup({ flushBytes: 4096 });
  await engine.commit([], [put("a", "old"), put("b", "old")]).done;
  await engine.flushNow();
  await engine.readAhead(["a", "b"]);
  await engine.commit([], [put("a", "new"), remove("b"), put("z", "x".repeat(4096))]).done;
  world.afterWrite = () => Promise.reject(diskFull());
  world.disk.capacityBytes = 0;
  const refused = engine.commit([], [put("c", "x".repeat(6000))]);
  await assert.rejects(refused.done, { code: "disk_full" });
  await settle();
  assert.equal(textOf(world.contents, "a"), "new");
  assert.equal(engine.get("a")?.toString(), "new");
  assert.equal(engine.get("b"), undefined);
});

test("closing while appends are held back and the kv has no room ends", async () => {
  const { world, engine } = await setup({ flushBytes: 4096 });
  const gate = Promise.withResolvers<void>();
  world.beforeWrite = () => gate.promise;
  const commits: Promise<void>[] = [];
  for (let n = 0; n < 200; n += 1) {
    commits.push(engine.commit([], [put(`key ${n}`, "x".repeat(100))]).done);
    await settle(1);
  }
  assert.equal(await standing(commits.at(-1)!), "pending");
  const closed = engine[Symbol.asyncDispose]();
  gate.reject(diskFull());
  assert.equal(await standing(closed), "done");
  await Promise.all(commits);
  world.beforeWrite = () => Promise.resolve();
  const next = await world.open();
  assert.equal((await everything(next)).length, 200);
});

test("appends that are held back go on when the kv has no room, so that they are answered", async () => {
  const { world, engine } = await setup({ flushBytes: 4096 });
  const gate = Promise.withResolvers<void>();
  world.beforeWrite = () => gate.promise;
  const commits: Promise<void>[] = [];
  for (let n = 0; n < 200; n += 1) {
    commits.push(engine.commit([], [put(`key ${n}`, "x".repeat(100))]).done);
    await settle(1);
  }
  world.beforeWrite = () => Promise.resolve();
  gate.reject(diskFull());
  assert.equal(await standing(Promise.all(commits)), "done");
  assert.equal(engine.state, "full");
  await world.clock.advance(1000);
  await engine.commit([], [put("last", "1")]).done;
  await engine.flushNow();
  assert.equal(world.stored().length, 201);
});

test("a disk whose free space cannot be told is a failure, not a crash", async () => {
  const { world, engine } = await setup();
  // The log asks, too, before it makes a file ahead.
  for (let n = 0; n < 20; n += 1) world.disk.failNext("freeBytes", "EIO");
  const value = "x".repeat(1_000_000);
  for (let n = 0; n < 9; n += 1) await engine.commit([], [put(`key ${n}`, value)]).done;
  await settle();
  assert.equal(engine.state, "failed");
});

test("an engine opens on a full disk: it can be read, refuses, and recovers", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  world.crash("process");
  let full = true;
  world.beforeWrite = () => (full ? Promise.reject(diskFull()) : Promise.resolve());
  const next = await world.open();
  assert.equal(next.state, "full");
  assert.equal(next.get("a")?.toString(), "1");
  full = false;
  await world.clock.advance(1000);
  await next.commit([], [put("b", "1")]).done;
  await next.flushNow();
  assert.equal(world.stored().length, 2);
});

/** Closes the engine and opens it again on a disk with 500 bytes left. */
async function openShort(world: EngineWorld): Promise<Engine> {
  world.crash("process");
  world.disk.capacityBytes -= (await world.disk.freeBytes()) - 500;
  return world.open();
}

test("below the reserve what frees space is taken, and everything else is refused", async () => {
  const { world, engine } = await setup({ minFreeBytes: 1000 });
  const low = thing("a", "low");
  await engine.commit([added(low)], [put("k", "v"), put("l", "v")]).done;
  const next = await openShort(world);
  assert.equal(next.state, "full");
  assert.equal(next.getText("k"), "v");
  assert.throws(() => next.commit([], [put("m", "v")]), { code: "disk_full" });
  assert.throws(() => next.assertWritable(), { code: "disk_full" });
  next.assertWritable(true);
  await next.commit([removed(low)], [remove("k")], true).done;
  assert.deepEqual(await everything(next), [["l", "v"]]);
  world.disk.capacityBytes = plenty;
  await world.clock.advance(1000);
  assert.equal(next.state, "open");
});

test("what was deleted below the reserve is flushed, so that its room is given back", async () => {
  const { world, engine } = await setup({ minFreeBytes: 100_000 });
  await engine.commit([], [put("k", "v")]).done;
  await engine.flushNow();
  const next = await openShort(world);
  await next.commit([], [remove("k")], true).done;
  await world.clock.advance(1000);
  assert.equal(next.state, "full");
  assert.deepEqual(world.stored(), []);
});

test("stays full as long as a shared log says so, and refuses deletions, too", async () => {
  const { world, engine } = await setup();
  await engine.commit([], [put("a", "1")]).done;
  world.isLogFull = true;
  await fill(world);
  await assert.rejects(engine.commit([], [large("b")]).done, { code: "disk_full" });
  world.disk.capacityBytes = plenty;
  await world.clock.advance(5000);
  assert.deepEqual(world.states, ["full"], "it does not open only to be full again");
  assert.throws(() => engine.commit([], [remove("a")], true), { code: "disk_full" });
  world.isLogFull = false;
  await world.clock.advance(1000);
  assert.deepEqual(world.states, ["full", "open"]);
});

test("a kv that met a full disk takes deletions again before there is all the room that there should be", async () => {
  const { world, engine } = await setup({ minFreeBytes: 64 * mebibyte, segmentBytes: mebibyte });
  await engine.commit([], [put("a", "1"), put("b", "1")]).done;
  let isFull = true;
  const refuse = (): Promise<void> => (isFull ? Promise.reject(diskFull()) : Promise.resolve());
  world.beforeWrite = refuse;
  world.beforeRecover = refuse;
  const used = plenty - (await world.disk.freeBytes());
  world.disk.capacityBytes = used + mebibyte;
  await assert.rejects(engine.flushNow(), { code: "disk_full" });
  await world.clock.advance(2000);
  assert.throws(() => engine.commit([], [remove("a")], true), { code: "disk_full" });
  // Somebody made room, which is not enough for the kv.
  world.disk.capacityBytes = used + 8 * mebibyte;
  let tries = 0;
  world.beforeRecover = () => {
    tries += 1;
    return refuse();
  };
  await world.clock.advance(5000);
  assert.equal(tries, 1, "it is not tried again and again");
  isFull = false;
  world.disk.capacityBytes = used + 16 * mebibyte;
  await world.clock.advance(1000);
  assert.equal(tries, 2);
  assert.equal(engine.state, "full");
  await engine.commit([], [remove("a")], true).done;
  await engine.flushNow();
  assert.deepEqual(world.stored(), [["b", "1"]]);
  assert.throws(() => engine.commit([], [put("c", "1")]), { code: "disk_full" });
});
