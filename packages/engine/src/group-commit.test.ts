import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBody, put } from "./batch-codec.ts";
import { FaultError } from "./fault.ts";
import { type Group, GroupCommit } from "./group-commit.ts";
import { type Appended, appendsInFlightMax, type Frame, headerBytes, type Log } from "./log/log.ts";
import { MemoryLog } from "./log/memory-log.ts";

/** A log whose appends end when they are told to, in their order. */
class HeldLog extends MemoryLog implements Log {
  readonly held: { readonly frame: Frame; end(fault?: FaultError): void }[] = [];
  /** How many of them have not ended. */
  inFlight = 0;
  inFlightMax = appendsInFlightMax;
  gatherMs: number | undefined;

  override get canAppend(): boolean {
    return this.inFlight < this.inFlightMax;
  }

  override append(frame: Frame, appended: Appended): void {
    this.inFlight += 1;
    const end = (fault?: FaultError): void => {
      this.inFlight -= 1;
      if (fault === undefined) super.append(frame, appended);
      else appended(fault, this.lastIndex + 1);
    };
    this.held.push({ frame, end });
  }
}

function setup(): {
  log: HeldLog;
  groups: GroupCommit;
  events: string[];
  turn: () => Promise<void>;
  /** Timers run when their time has come. */
  timers: (() => void)[];
  add: (key: string, value?: string) => Group;
} {
  const log = new HeldLog({ writer: 1, epoch: 1, shard: 0 });
  const events: string[] = [];
  const deferred: (() => void)[] = [];
  const timers: (() => void)[] = [];
  const after = (_ms: number, run: () => void): (() => void) => {
    timers.push(run);
    return () => {};
  };
  const groups = new GroupCommit({
    log,
    clock: { nowMs: () => 0, monotonicMs: () => 0, after },
    defer: (run) => deferred.push(run),
    events: {
      opening: (index) => events.push(`opening ${index}`),
      closing: ({ index }) => events.push(`closing ${index}`),
      durable: ({ index }) => events.push(`durable ${index}, appends ${log.held.length}`),
      failed: ({ code }) => events.push(`failed ${code}`),
    },
  });
  const turn = async (): Promise<void> => {
    for (const run of deferred.splice(0)) run();
    for (let ticks = 0; ticks < 10; ticks += 1) await Promise.resolve();
  };
  const add = (key: string, value = ""): Group => {
    const group = groups.open();
    group.writer.add(put(key, value));
    group.batchCount += 1;
    if (group.batchCount === 1) {
      group.done.then(
        () => events.push(`done ${group.index}, appends ${log.held.length}`),
        (fault: FaultError) => events.push(`rejected ${group.index} ${fault.code}`),
      );
    }
    return group;
  };
  return { log, groups, events, turn, timers, add };
}

function keysOf({ frame }: { readonly frame: Frame }): string[] {
  const body = frame.buffer.subarray(headerBytes, headerBytes + frame.bodyBytes);
  return [...decodeBody(body)].map(({ key }) => key);
}

test("batches of one turn share one append, in the order they came", async () => {
  const { log, turn, add } = setup();
  for (const key of ["a", "b", "c"]) add(key);
  assert.equal(log.held.length, 0);
  await turn();
  assert.deepEqual(log.held.map(keysOf), [["a", "b", "c"]]);
});

test("as many appends as the log takes; the next starts before those who waited continue", async () => {
  const { log, events, turn, add } = setup();
  for (const key of ["a", "b", "c", "d"]) {
    add(key);
    await turn();
  }
  assert.deepEqual(log.held.map(keysOf), [["a"], ["b"]]);
  log.held[0]!.end();
  await turn();
  log.held[1]!.end();
  log.held[2]!.end();
  await turn();
  assert.deepEqual(events, [
    ...["opening 1", "closing 1", "opening 2", "closing 2", "opening 3"],
    ...["durable 1, appends 2", "closing 3", "done 1, appends 3"],
    ...["durable 2, appends 3", "durable 3, appends 3", "done 2, appends 3", "done 3, appends 3"],
  ]);
  assert.deepEqual(keysOf(log.held[2]!), ["c", "d"]);
});

test("waiters continue in the order of the log, after the next append has started", async () => {
  const { log, groups, turn, add } = setup();
  const told: string[] = [];
  for (const key of ["a", "b", "c"]) {
    add(key).wait({
      durable: () => told.push(`${key} with ${log.held.length} appends`),
      refused: () => assert.fail("nothing is refused"),
    });
    await turn();
  }
  log.held[0]!.end();
  log.held[1]!.end();
  await turn();
  assert.deepEqual(told, ["a with 3 appends", "b with 3 appends"]);
  assert.equal(groups.find(3)?.isClosed, true);
});

test("a batch does not join a group that is under way, however few there are", async () => {
  const { log, turn, add } = setup();
  const first = add("a");
  await turn();
  const second = add("b");
  assert.notEqual(second, first);
  await turn();
  assert.notEqual(add("c"), second);
  assert.deepEqual(log.held.map(keysOf), [["a"], ["b"]]);
});

test("a failure of the first append rejects the second, whatever becomes of it", async () => {
  const { log, groups, events, turn, add } = setup();
  for (const key of ["a", "b", "c"]) {
    add(key);
    await turn();
  }
  const full = new FaultError("disk_full", "full");
  log.held[0]!.end(full);
  log.held[1]!.end(full);
  await turn();
  assert.deepEqual(
    events.filter((event) => !/ing/.test(event)),
    ["failed disk_full", ...[1, 2, 3].map((index) => `rejected ${index} disk_full`)],
  );
  assert.equal(groups.newest(), undefined);
  groups.restart();
  assert.equal(add("d").index, 1);
});

test("a failure of the second append leaves the first durable", async () => {
  const { log, groups, events, turn, add } = setup();
  for (const key of ["a", "b", "c"]) {
    add(key);
    await turn();
  }
  log.held[0]!.end();
  await turn();
  log.held[1]!.end(new FaultError("disk_full", "full"));
  await turn();
  assert.deepEqual(
    events.filter((event) => !/ing/.test(event)),
    [
      ...["durable 1, appends 2", "done 1, appends 3", "failed disk_full"],
      ...["rejected 2 disk_full", "rejected 3 disk_full"],
    ],
  );
  groups.restart();
  assert.equal(add("d").index, 2);
});

test("a log that takes no append gathers, and goes on when one has ended", async () => {
  const { log, turn, add } = setup();
  add("a");
  await turn();
  log.inFlightMax = 1;
  for (const key of ["b", "c"]) {
    add(key);
    await turn();
  }
  assert.equal(log.held.length, 1);
  log.held[0]!.end();
  await turn();
  assert.deepEqual(log.held.map(keysOf), [["a"], ["b", "c"]]);
});

test("a group takes 1024 batches, or a mebibyte, and no more", async () => {
  const { log, turn, add } = setup();
  const first = Array.from({ length: 1024 }, (_, n) => add(`k${n}`));
  const second = add("next");
  add("large", "x".repeat(1024 * 1024));
  const third = add("after large");
  assert.equal(new Set(first).size, 1);
  assert.deepEqual([first[0]!.index, second.index, third.index], [1, 2, 3]);
  await turn();
  log.held[0]!.end();
  await turn();
  log.held[1]!.end();
  await turn();
  assert.deepEqual(
    log.held.map((held) => keysOf(held).length),
    [1024, 2, 1],
  );
});

test("a group is closed once, before the next one opens and before it is appended", async () => {
  const { log, events, turn, add } = setup();
  for (let n = 0; n < 1024; n += 1) add(`k${n}`);
  add("next");
  await turn();
  log.held[0]!.end();
  await turn();
  assert.deepEqual(
    events.filter((event) => /ing/.test(event)),
    ["opening 1", "closing 1", "opening 2", "closing 2"],
  );
});

test("what waits can be found by its index until it is durable", async () => {
  const { log, groups, turn, add } = setup();
  const a = add("a");
  assert.equal(groups.find(1), a);
  await turn();
  const b = add("b");
  assert.equal(groups.find(1), a);
  assert.equal(groups.find(2), b);
  assert.equal(groups.newest(), b);
  await turn();
  assert.equal(groups.find(1), a);
  assert.equal(groups.find(2), b);
  assert.equal(groups.newest(), b);
  log.held[0]!.end();
  await turn();
  assert.equal(groups.find(1), undefined);
  assert.equal(groups.waitingBytes, 0);
  log.held[1]!.end();
  await turn();
  assert.equal(groups.newest(), undefined);
});

test("a failed append rejects its group and all behind it, after the fault was told", async () => {
  const { log, groups, events, turn, add } = setup();
  add("a");
  await turn();
  add("b");
  log.held[0]!.end(new FaultError("disk_full", "full"));
  await turn();
  assert.deepEqual(events.slice(3), [
    "failed disk_full",
    "rejected 1 disk_full",
    "rejected 2 disk_full",
  ]);
  groups.restart();
  assert.equal(add("c").index, 1);
  await turn();
  assert.deepEqual(log.held.slice(1).map(keysOf), [["c"]]);
});

test("while it is paused nothing is appended; what came meanwhile goes together", async () => {
  const { log, groups, turn, add } = setup();
  groups.pause();
  add("a");
  await turn();
  add("b");
  await turn();
  assert.equal(log.held.length, 0);
  assert.ok(groups.waitingBytes > 0);
  groups.resume();
  await turn();
  assert.deepEqual(log.held.map(keysOf), [["a", "b"]]);
});

test("a pause does not hold up what is under way", async () => {
  const { log, groups, events, turn, add } = setup();
  add("a");
  await turn();
  groups.pause();
  add("b");
  log.held[0]!.end();
  await turn();
  assert.equal(events.at(-1), "done 1, appends 1");
  groups.resume();
  await turn();
  assert.deepEqual(log.held.map(keysOf), [["a"], ["b"]]);
});

test("a restart ends a pause", async () => {
  const { log, groups, turn, add } = setup();
  add("a");
  await turn();
  groups.pause();
  log.held[0]!.end(new FaultError("disk_full", "full"));
  await turn();
  groups.restart();
  add("b");
  await turn();
  assert.deepEqual(log.held.slice(1).map(keysOf), [["b"]]);
});

test("after a failure nothing is resolved, also not the append that succeeds later", async () => {
  const { log, groups, events, turn, add } = setup();
  for (const key of ["a", "b", "c"]) {
    add(key);
    await turn();
  }
  groups.fail(new FaultError("storage_failed", "broken"));
  for (const held of log.held) held.end();
  await turn();
  assert.deepEqual(
    events.filter((event) => !/ing/.test(event)),
    [1, 2, 3].map((index) => `rejected ${index} storage_failed`),
  );
  assert.equal(log.held.length, 2);
  assert.equal(groups.newest(), undefined);
});

test("a busy log that gathers takes those who were just answered into its next append", async () => {
  const { log, turn, timers, add } = setup();
  Object.assign(log, { gatherMs: 1, inFlightMax: 1 });
  const busy = Array.from({ length: 8 }, (_, at) => `busy ${at}`);
  for (const key of busy) add(key);
  await turn();
  add("waits");
  log.held[0]!.end();
  await turn();
  add("answered");
  await turn();
  assert.deepEqual(log.held.map(keysOf), [busy]);
  for (const run of timers.splice(0)) run();
  assert.deepEqual(log.held.slice(1).map(keysOf), [["waits", "answered"]]);
  // Two are not many, and nobody waits: the next append begins at once.
  log.held[1]!.end();
  add("next");
  await turn();
  assert.deepEqual([log.held.slice(2).map(keysOf), timers], [[["next"]], []]);
  add("came meanwhile");
  await turn();
  log.held[2]!.end();
  add("answered");
  await turn();
  assert.equal(log.held.length, 3);
  for (const run of timers.splice(0)) run();
  assert.deepEqual(log.held.slice(3).map(keysOf), [["came meanwhile", "answered"]]);
});
