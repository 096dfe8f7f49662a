/** What happens to appends that are under way at the same time, step by step. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SimDisk, type SimDiskOperation } from "../../../simulated/src/sim-disk.ts";
import { append, bodiesFrom, frameOf } from "../../test/log-contract.ts";
import type { FaultError } from "../fault.ts";
import { LocalLog } from "./local-log.ts";
import { inspectSegment, segmentName } from "./segment.ts";

const segmentBytes = 2048;
const seeds = 40;

function seeded(seed: number): () => number {
  let state = Math.imul(seed, 0x2545f491);
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x80000000;
  };
}

interface Setup {
  readonly disk: SimDisk;
  readonly log: LocalLog;
  /** What the log answered, in that order. */
  readonly told: string[];
  give(body: string): void;
  /** Lets the syncs wait that come from now on, each for its own end. */
  holdSyncs(count: number): (() => void)[];
}

async function setup(seed = 1): Promise<Setup> {
  const disk = new SimDisk({ random: seeded(seed) });
  const log = await openLog(disk);
  await append(log, frameOf("first"));
  const told: string[] = [];
  const give = (body: string): void => {
    log.append(frameOf(body), (fault, index) => told.push(`${index} ${fault?.code ?? "kept"}`));
  };
  const holdSyncs = (count: number): (() => void)[] =>
    Array.from({ length: count }, () => {
      const gate = Promise.withResolvers<void>();
      disk.slow("sync", gate.promise);
      return gate.resolve;
    });
  return { disk, log, told, give, holdSyncs };
}

function openLog(disk: SimDisk): Promise<LocalLog> {
  const identity = { writer: 1, epoch: 1, shard: 0, monotonicMs: () => 0 };
  return LocalLog.open(disk, { ...identity, durability: "fsync", segmentBytes });
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
}

async function headersOf(disk: SimDisk, name = segmentName(1)): Promise<string[]> {
  const headers: string[] = [];
  for await (const entry of inspectSegment(disk, name)) {
    if (entry.ok) headers.push(`${entry.header.index} -${entry.header.unsyncedBefore}`);
  }
  return headers;
}

/** The records after the start of the next process. */
async function leftOn(disk: SimDisk): Promise<string[]> {
  const log = await openLog(disk);
  const bodies = await bodiesFrom(log, 1);
  await log.close();
  return bodies;
}

test("a record is written while the one before it is synced, and says so; there is no third", async () => {
  const { disk, log, told, give, holdSyncs } = await setup();
  const [endFirst, endSecond] = holdSyncs(2);
  give("a");
  await settle();
  assert.equal(log.canAppend, true);
  give("b");
  await settle();
  assert.equal(log.canAppend, false);
  assert.throws(() => give("c"), /append is called only when it can be/);
  assert.deepEqual(await headersOf(disk), ["1 -0", "2 -0", "3 -1"]);
  assert.equal(log.lastIndex, 1);
  endFirst!();
  await settle();
  assert.deepEqual(told, ["2 kept"]);
  give("c");
  await settle();
  endSecond!();
  await settle();
  give("d");
  await settle();
  assert.deepEqual(told, ["2 kept", "3 kept", "4 kept", "5 kept"]);
  assert.deepEqual(await headersOf(disk), ["1 -0", "2 -0", "3 -1", "4 -1", "5 -0"]);
  await log.close();
});

test("the second is not acknowledged by its own sync, but with the first", async () => {
  const { disk, log, told, give, holdSyncs } = await setup();
  const [endFirst] = holdSyncs(1);
  give("a");
  await settle();
  give("b");
  await settle();
  assert.deepEqual(told, []);
  assert.equal(log.lastIndex, 1);
  endFirst!();
  await settle();
  assert.deepEqual(told, ["2 kept", "3 kept"]);
  give("c");
  await settle();
  assert.deepEqual((await headersOf(disk)).at(-1), "4 -0");
  await log.close();
});

test("a sync that fails is final for what is under way, whichever it is and ends first", async () => {
  const cases = [
    { fails: 0, ends: [0, 1], expected: ["2 storage_failed", "3 storage_failed"] },
    { fails: 0, ends: [1, 0], expected: ["2 storage_failed", "3 storage_failed"] },
    { fails: 1, ends: [0, 1], expected: ["2 kept", "3 storage_failed"] },
    { fails: 1, ends: [1, 0], expected: ["2 storage_failed", "3 storage_failed"] },
  ];
  for (const { fails, ends, expected } of cases) {
    const { disk, log, told, give, holdSyncs } = await setup();
    const gates = holdSyncs(2);
    for (const position of [0, 1]) {
      if (position === fails) disk.failNext("sync", "EIO");
      give(`${position}`);
      await settle();
    }
    for (const position of ends) {
      gates[position]!();
      await settle();
    }
    assert.deepEqual(told, expected, `${fails} fails, ${ends}`);
    await assert.rejects(append(log, frameOf("late")), { code: "storage_failed" });
    await log.close();
  }
});

test("a full disk refuses what is not acknowledged, wipes it, and the log goes on", async () => {
  const cases: { operation: SimDiskOperation; fails: number; ends: number[]; kept: string[] }[] = [
    { operation: "sync", fails: 0, ends: [0, 1], kept: [] },
    { operation: "sync", fails: 0, ends: [1, 0], kept: [] },
    { operation: "sync", fails: 1, ends: [0, 1], kept: ["a"] },
    { operation: "sync", fails: 1, ends: [1, 0], kept: [] },
    { operation: "write", fails: 0, ends: [0, 1], kept: [] },
    { operation: "write", fails: 1, ends: [0, 1], kept: ["a"] },
  ];
  for (const { operation, fails, ends, kept } of cases) {
    for (let seed = 1; seed <= seeds; seed += 1) {
      const { disk, log, told, give, holdSyncs } = await setup(seed);
      const gates = holdSyncs(operation === "write" ? 1 : 2);
      for (const [position, body] of ["a", "b"].entries()) {
        if (position === fails) disk.failNext(operation, "ENOSPC");
        // With a write that fails at once there is no second append.
        if (log.canAppend) give(body);
        await settle();
      }
      for (const position of ends) {
        gates[position]?.();
        await settle();
      }
      const first = kept.length === 0 ? "disk_full" : "kept";
      assert.deepEqual(told, [`2 ${first}`, "3 disk_full"].slice(0, told.length));
      const bodies = ["first", ...kept];
      assert.deepEqual(await bodiesFrom(log, 1), bodies);
      // As long as those that were refused, so that they end where those began.
      for (const body of ["c", "d"].slice(seed % 3)) {
        give(body);
        await settle();
        assert.match(told.at(-1)!, / kept$/);
        bodies.push(body);
      }
      assert.deepEqual(await leftOn(disk.crash("power")), bodies, `${operation} ${fails} ${seed}`);
    }
  }
});

test("a new segment and a large frame wait for what is under way, and go alone", async () => {
  for (const bytes of [1900, 5000]) {
    const { disk, log, told, give, holdSyncs } = await setup();
    const [endFirst, endSecond] = holdSyncs(2);
    give("a");
    await settle();
    give("x".repeat(bytes));
    await settle();
    assert.deepEqual((await disk.list()).length, 1);
    endFirst!();
    await settle();
    assert.deepEqual(told, ["2 kept"]);
    assert.equal(log.canAppend, false);
    endSecond!();
    await settle();
    give("after");
    await settle();
    assert.deepEqual(told, ["2 kept", "3 kept", "4 kept"]);
    assert.equal((await headersOf(disk, segmentName(3)))[0], "3 -0");
    await log.close();
    assert.deepEqual(await leftOn(disk), ["first", "a", "x".repeat(bytes), "after"]);
  }
});

test("closing waits for both", async () => {
  const { disk, log, told, give, holdSyncs } = await setup();
  const [endFirst, endSecond] = holdSyncs(2);
  give("a");
  await settle();
  give("b");
  await settle();
  let isClosed = false;
  const closing = log.close().then(() => {
    isClosed = true;
  });
  endSecond!();
  await settle();
  assert.deepEqual([told, isClosed], [[], false]);
  endFirst!();
  await closing;
  assert.deepEqual(told, ["2 kept", "3 kept"]);
  assert.deepEqual(await leftOn(disk.crash("power")), ["first", "a", "b"]);
});

/**
 * Pairs of appends over several segments, until some operation of the disk is the last one; what is
 * under way at the same time ends in any order.
 */
async function crashAfter(
  operations: number,
  seed: number,
): Promise<{ disk: SimDisk; given: string[]; kept: number }> {
  const random = seeded(seed);
  const over = Promise.withResolvers<void>();
  let left = operations;
  const disk = new SimDisk({
    random,
    latency: async () => {
      left -= 1;
      for (let turns = Math.floor(random() * 6); turns > 0; turns -= 1) await undefined;
      if (left >= 0) return;
      over.resolve();
      await new Promise(() => {});
    },
  });
  const given: string[] = [];
  let kept = 0;
  const work = async (): Promise<void> => {
    const log = await openLog(disk);
    const give = (bytes: number): Promise<void> =>
      new Promise((resolve) => {
        given.push(`${given.length + 1}:`.padEnd(bytes, "."));
        log.append(frameOf(given.at(-1)!), (fault: FaultError | undefined, index) => {
          assert.equal(fault, undefined);
          kept += 1;
          assert.equal(index, kept);
          resolve();
        });
      });
    for (const bytes of [100, 50, 200, 400, 900, 10, 100]) {
      const ends = [give(bytes)];
      if (log.canAppend) ends.push(give(200));
      await Promise.all(ends);
    }
  };
  await Promise.race([work(), over.promise]);
  left = Number.POSITIVE_INFINITY;
  return { disk: disk.crash(seed % 4 === 0 ? "process" : "power"), given, kept };
}

test("a crash between any two steps of two appends loses nothing that was acknowledged", async () => {
  let dropped = 0;
  for (let operations = 1; operations < 70; operations += 1) {
    for (let seed = 1; seed <= 12; seed += 1) {
      const { disk, given, kept } = await crashAfter(operations, seed * 7919 + operations);
      const log = await openLog(disk);
      const what = `after ${operations} operations, seed ${seed}`;
      assert.ok(log.lastIndex >= kept, `${what}: ${log.lastIndex} of ${kept}`);
      assert.deepEqual(await bodiesFrom(log, 1), given.slice(0, log.lastIndex), what);
      dropped += log.cut?.recordsDropped ?? 0;
      await append(log, frameOf("next"));
      await log.close();
      assert.deepEqual(await leftOn(disk), [...given.slice(0, log.lastIndex - 1), "next"]);
    }
  }
  assert.ok(dropped > 0, "some failure took the first of two and left the second");
});
