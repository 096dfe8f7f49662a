import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { append, bodiesFrom, frameOf } from "../../../test/log-contract.ts";
import {
  MemoryLogServer,
  type MemorySharedLog,
  type Way,
} from "../../../test/memory-shared-log.ts";
import { put } from "../../batch-codec.ts";
import { Engine } from "../../engine.ts";
import type { EngineClock } from "../../engine-options.ts";
import { FaultError } from "../../fault.ts";
import { MemoryKv } from "../../kv/memory-kv.ts";
import type { RowCodec } from "../../row-codec.ts";
import { LeaderLog } from "./leader-log.ts";
import { sharedRecordTypes } from "./shared-log.ts";
import { firstPosition, type LogPosition, readSlot, stamp } from "./slot-rules.ts";

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** Timers run when a test lets them; time stands still otherwise. */
class HandClock implements EngineClock {
  readonly timers: Set<() => void> = new Set();
  timeMs = 1000;

  nowMs(): number {
    return this.timeMs;
  }

  monotonicMs(): number {
    return this.timeMs;
  }

  after(_delayMs: number, run: () => void): () => void {
    this.timers.add(run);
    return () => void this.timers.delete(run);
  }

  /** Everything that is planned now is due. */
  async fire(): Promise<void> {
    const due = [...this.timers];
    this.timers.clear();
    for (const run of due) run();
    await nextTurn();
  }
}

const leader = record(sharedRecordTypes.takeover, 1, 7);

function record(type: number, epoch: number, writer: number) {
  const body = Buffer.from(JSON.stringify({ id: `node-${writer}`, address: "" }));
  return { type, epoch, writer, shard: 0, timeMs: 1, opCount: 0, body };
}

function setup(way?: Way) {
  const server = new MemoryLogServer(5);
  const bytes = stamp(leader, firstPosition);
  server.append(bytes, 1);
  const { position } = readSlot(firstPosition, bytes);
  const clock = new HandClock();
  const shared = server.connect(way);
  const log = openLog(shared, clock, position);
  return { server, clock, log, position };
}

function openLog(shared: MemorySharedLog, clock: EngineClock, position: LogPosition): LeaderLog {
  const beat = leader.body;
  return new LeaderLog({
    shared,
    position,
    shard: 0,
    clock,
    leaseMs: 2000,
    stuckMs: 3000,
    beatMs: 500,
    beat,
  });
}

/** Another node takes over behind everything. */
function depose(server: MemoryLogServer): void {
  let position = firstPosition;
  for (const bytes of server.read(1)) ({ position } = readSlot(position, bytes));
  const takeover = record(sharedRecordTypes.takeover, position.epoch + 1, 8);
  server.append(stamp(takeover, position), position.slot + 1);
}

describe("the log of a leader", () => {
  test("keeps records in order, with heartbeats in between", async () => {
    const { log, clock, server } = setup();
    assert.equal(await append(log, frameOf("one")), 1);
    await clock.fire();
    assert.equal(await append(log, frameOf("two")), 2);
    assert.equal(log.lastIndex, 2);
    assert.ok(server.bounds.last > 3, "there are heartbeats");
    assert.deepEqual(await bodiesFrom(log, 1), ["one", "two"]);
    await log.trim(2);
    assert.equal(log.firstIndex, 2);
    assert.deepEqual(await bodiesFrom(log, 2), ["two"]);
    await assert.rejects(bodiesFrom(log, 1), { code: "corrupt" });
  });

  test("tells the others of many records at once, and at once of the first", async () => {
    const { log, clock, server } = setup();
    let notices = 0;
    server.connect().onNotice = () => {
      notices += 1;
    };
    for (const body of ["one", "two", "three"]) await append(log, frameOf(body));
    await nextTurn();
    assert.equal(notices, 1);
    await clock.fire();
    assert.equal(notices, 2);
    await log.handOff();
    await nextTurn();
    assert.equal(notices, 3);
  });

  test("sends the same bytes again until it knows that they were kept", async () => {
    let lost = 3;
    const { log, clock, server } = setup(async (there) => {
      const answer = there();
      lost -= 1;
      if (lost >= 0) throw new Error("lost");
      return answer;
    });
    const appended = append(log, frameOf("one"));
    for (let turn = 0; turn < 20; turn += 1) await clock.fire();
    assert.equal(await appended, 1);
    const found = server.read(1).filter((bytes) => Buffer.from(bytes).includes("one"));
    assert.equal(found.length, 1);
  });

  test("refuses everything when another node has taken over", async () => {
    const { log, server } = setup();
    await append(log, frameOf("one"));
    depose(server);
    await assert.rejects(append(log, frameOf("two")), { code: "not_leader" });
    assert.equal(await log.lost, "deposed");
    await assert.rejects(append(log, frameOf("three")), { code: "not_leader" });
    assert.equal(
      server.read(1).some((bytes) => Buffer.from(bytes).includes("two")),
      false,
    );
  });

  test("hears from a heartbeat that it was deposed", async () => {
    const { log, server, clock } = setup();
    depose(server);
    await clock.fire();
    assert.equal(await log.lost, "deposed");
  });

  test("passes over a record of somebody who was deposed", async () => {
    const { log, server, position } = setup();
    const late = record(1, 0, 3);
    server.append(stamp(late, position), 2);
    assert.equal(await append(log, frameOf("one")), 1);
    assert.deepEqual(await bodiesFrom(log, 1), ["one"]);
    assert.ok(Buffer.from(server.read(3)[0] ?? "").includes("one"));
  });

  test("is sure to lead only for a while after something was kept", async () => {
    const { log, clock } = setup();
    assert.equal(log.isSure, false);
    await append(log, frameOf("one"));
    assert.equal(log.isSure, true);
    clock.timeMs += 1999;
    assert.equal(log.isSure, true);
    clock.timeMs += 1;
    assert.equal(log.isSure, false);
  });

  test("says that the disk is full when the log servers take no more, and goes on afterwards", async () => {
    const { log, server } = setup();
    server.bytesMax = 0;
    await assert.rejects(append(log, frameOf("one")), { code: "disk_full" });
    server.bytesMax = Number.POSITIVE_INFINITY;
    assert.equal(await append(log, frameOf("two")), 1);
  });

  test("stays full until a part of the log is free, not only for one more record", async () => {
    const { log, clock, server } = setup();
    for (let number = 0; number < 40; number += 1) await append(log, frameOf("x".repeat(1000)));
    server.bytesMax = server.bytes + 500;
    await assert.rejects(append(log, frameOf("x".repeat(1000))), { code: "disk_full" });
    assert.equal(log.isFull, true);
    server.trim(3);
    for (let turn = 0; turn < 5; turn += 1) await clock.fire();
    assert.equal(log.isFull, true, "there is room for a record, and soon there would not be");
    assert.match(log.problem ?? "", /the log of this shard is full/);
    server.trim(20);
    for (let turn = 0; turn < 5; turn += 1) await clock.fire();
    assert.equal(log.isFull, false);
    assert.equal(log.problem, undefined);
    assert.equal(await append(log, frameOf("y")), 41);
  });

  test("leads no longer when others have trimmed records that its engine needs", async () => {
    const { log, server } = setup();
    for (const body of ["one", "two", "three"]) await append(log, frameOf(body));
    server.trim(4);
    await assert.rejects(bodiesFrom(log, 1), { code: "unknown", message: /gone on without/ });
    assert.equal(await log.lost, "deposed");
  });

  test("says when it is too long to be kept for a backup", async () => {
    const { log } = setup();
    const large = "x".repeat(4 * 1024 * 1024);
    for (let count = 1; count <= 16; count += 1) {
      assert.equal(log.holdsMuch, false);
      await append(log, frameOf(large));
    }
    assert.equal(log.holdsMuch, true);
    await log.trim(16);
    assert.equal(log.holdsMuch, false);
  });

  test("does not call a record refused while an earlier copy of it may be kept", async () => {
    let isLost = true;
    const { log, server, clock } = setup(async (there) => {
      if (isLost) throw new Error("timeout");
      return there();
    });
    const appended = append(log, frameOf("one"));
    await nextTurn();
    isLost = false;
    server.bytesMax = 0;
    await clock.fire();
    assert.equal(await Promise.race([appended, nextTurn()]), undefined, "nobody knows");
    server.bytesMax = Number.POSITIVE_INFINITY;
    await clock.fire();
    assert.equal(await appended, 1);
  });

  test("steps down when a record that was refused is in the log after all", async () => {
    const { log, server, position } = setup();
    server.bytesMax = 0;
    await assert.rejects(append(log, frameOf("one")), { code: "disk_full" });
    server.bytesMax = Number.POSITIVE_INFINITY;
    server.append(stamp(record(1, 1, 7), position), 2);
    await assert.rejects(append(log, frameOf("two")), { code: "unknown" });
    assert.equal(await log.lost, "given up");
  });

  test("asks again for what it has to read while the log servers do not answer", async () => {
    let isLost = false;
    const { log, clock } = setup(async (there) => {
      if (isLost) throw new Error("timeout");
      return there();
    });
    await append(log, frameOf("one"));
    isLost = true;
    const read = bodiesFrom(log, 1);
    await nextTurn();
    isLost = false;
    await clock.fire();
    assert.deepEqual(await read, ["one"]);
  });

  test("stops when the log is not the one that it wrote", async () => {
    const { log, server } = setup();
    await append(log, frameOf("one"));
    server.append(Buffer.from("not a record"), server.bounds.last + 1);
    await assert.rejects(append(log, frameOf("two")), { code: "unknown" });
    assert.equal(await log.lost, "diverged");
  });

  test("refuses what is under way as unknown when it is given up", async () => {
    const { log, clock } = setup(() => Promise.reject(new Error("gone")));
    const refused = assert.rejects(append(log, frameOf("one")), { code: "unknown" });
    await nextTurn();
    log.giveUp("the node stops");
    await clock.fire();
    await refused;
  });
});

const noRows: RowCodec = {
  prefix: "rows/",
  idOf: () => "",
  bytesMaxOf: () => 0,
  write: () => 0,
  read: () => undefined,
  indexKeys: () => [],
} as unknown as RowCodec;

test("an engine that is closed by a deposed leader leaves nothing of what was refused", async () => {
  const { log, server, clock } = setup();
  const contents = new Map<string, Buffer>();
  const disk = Promise.withResolvers<void>();
  const engine = await Engine.open({
    log,
    kv: new MemoryKv({ contents, beforeWrite: () => disk.promise }),
    isKvLent: true,
    rows: noRows,
    derive: () => [],
    observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
    freeBytes: () => Promise.resolve(Number.POSITIVE_INFINITY),
    clock,
    defer: (run) => queueMicrotask(run),
    minFreeBytes: 0,
    flushBytes: 1,
    syncIntervalMs: undefined,
  });
  await engine.commit([], [put("kept", "1")]).done;
  // Is flushed when the next group is opened, which takes until the disk goes on.
  await engine.commit([], [put("kept too", "1")]).done;
  depose(server);
  const refused = engine.commit([], [put("refused", "1")]).done;
  const closing = engine[Symbol.asyncDispose]();
  await assert.rejects(refused, (error) => error instanceof FaultError);
  disk.resolve();
  await closing;
  assert.deepEqual([contents.has("kept"), contents.has("refused")], [true, false]);
});
