import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { TaskId } from "@codeq/queue";
import fc from "fast-check";
import type { Position } from "../../store/store.ts";
import { nearMax, ReadyWindow } from "./ready-window.ts";

function idOf(seq: number): TaskId {
  return `018bcfe5-6800-7000-8000-${seq.toString(16).padStart(12, "0")}` as TaskId;
}

/** A window over an index that holds everything which was not taken. */
function setup(roomMax = 8): {
  window: ReadyWindow;
  index: Position[];
  arrive: () => void;
  refill: (limit: number) => { end: () => void };
} {
  const window = new ReadyWindow();
  const index: Position[] = [];
  let seq = 0;
  const arrive = (): void => {
    // Other queues take numbers in between.
    seq += 1 + (seq % 3);
    const id = idOf(seq);
    index.push({ number: seq, id });
    window.arrive(seq, id, window.size < roomMax);
  };
  const refill = (limit: number): { end: () => void } => {
    const newest = window.beginRefill();
    const behind = index.filter(({ number }) => number > window.coveredTo);
    const found = behind.slice(0, limit);
    const reached = found.length < behind.length ? (found.at(-1)?.number ?? 0) : newest;
    return { end: () => window.endRefill(found, reached) };
  };
  return { window, index, arrive, refill };
}

test("what arrives in an empty queue is in memory at once", () => {
  const { window, arrive } = setup();
  arrive();
  arrive();
  assert.equal(window.size, 2);
  assert.equal(window.headSeq, window.take()?.number);
});

test("once something had to stay on disk, what comes later stays there too", () => {
  const { window, index, arrive, refill } = setup(2);
  for (let n = 0; n < 4; n += 1) arrive();
  assert.equal(window.size, 2);
  window.take();
  arrive();
  assert.equal(window.size, 1);
  refill(100).end();
  assert.equal(window.size, 4);
  assert.deepEqual(window.take(), index[1]);
});

test("what arrives during a refill is found by the next one", () => {
  const { window, arrive, refill } = setup(1);
  arrive();
  arrive();
  const reading = refill(100);
  arrive();
  reading.end();
  assert.equal(window.size, 2);
  refill(100).end();
  assert.equal(window.size, 3);
});

test("a recovered window starts empty and finds everything by refills", () => {
  const window = new ReadyWindow();
  window.recover(50);
  window.arrive(51, "new" as TaskId, true);
  assert.equal(window.size, 0);
  window.endRefill([{ number: 7, id: "old" as TaskId }], 7);
  window.endRefill([{ number: 51, id: "new" as TaskId }], window.beginRefill());
  assert.deepEqual([window.take()?.id, window.take()?.id], ["old", "new"]);
  window.arrive(60, "direct" as TaskId, true);
  assert.equal(window.headSeq, 60);
});

test("whatever comes, goes and is read: nothing is lost or given twice, in order, in little room", () => {
  const step = fc.constantFrom("arrive", "arrive", "arrive", "take", "take", "read", "end");
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 300 }),
      fc.integer({ min: 1, max: 9 }),
      (steps, limit) => {
        const { window, index, arrive, refill } = setup();
        let reading: { end: () => void } | undefined;
        const takeOne = (): void => {
          const taken = window.take();
          if (taken === undefined) return;
          assert.deepEqual(taken, index[0]);
          index.shift();
        };
        for (const step of steps) {
          if (step === "arrive") arrive();
          else if (step === "take") takeOne();
          else if (step === "read" && window.size < index.length) reading ??= refill(limit);
          else if (step === "end") {
            reading?.end();
            reading = undefined;
          }
          assert.ok(window.size <= 8 + limit);
        }
        reading?.end();
        while (index.length > 0) {
          if (window.size === 0) refill(limit).end();
          takeOne();
        }
      },
    ),
  );
});

test("a window that thousands of tasks pass through does not grow", () => {
  const { window, arrive } = setup();
  for (let n = 0; n < 10_000; n += 1) {
    arrive();
    assert.ok(window.take());
  }
  assert.equal(window.size, 0);
  assert.equal(window.headSeq, undefined);
});

/** Takes one, and brings others near as whoever claims does. */
function take(window: ReadyWindow): Position | undefined {
  const taken = window.take();
  window.bringNear();
  return taken;
}

test("what is far is held as well, and comes in its turn", () => {
  const { window, index, arrive } = setup(Number.POSITIVE_INFINITY);
  const count = nearMax * 3 + 17;
  for (let n = 0; n < count; n += 1) arrive();
  assert.equal(window.size, count);
  assert.equal(window.coveredTo, index.at(-1)?.number);
  for (let n = 0; n < count; n += 1) {
    assert.equal(window.headId, index[n]?.id);
    assert.equal(window.headSeq, index[n]?.number);
    assert.deepEqual(take(window), index[n]);
    assert.equal(window.size, count - n - 1);
  }
  assert.equal(take(window), undefined);
});

test("those that are brought near are told once, in order, and only when few are left", () => {
  const { window, index, arrive } = setup(Number.POSITIVE_INFINITY);
  for (let n = 0; n < nearMax + 3000; n += 1) arrive();
  assert.deepEqual(window.bringNear(), []);
  const told: TaskId[] = [];
  for (let taken = 1; window.size > 0; taken += 1) {
    window.take();
    const brought = window.bringNear();
    told.push(...brought);
    // Whoever is next was told before its turn comes.
    if (window.size > 0) assert.notEqual(window.headSeq, undefined);
    if (brought.length > 0) assert.ok(taken > nearMax - 1024, `${taken} taken`);
  }
  assert.deepEqual(
    told,
    index.slice(nearMax).map(({ id }) => id),
  );
});

test("a task whose id cannot be packed stays on disk, with all that come later", () => {
  const { window, arrive } = setup(Number.POSITIVE_INFINITY);
  for (let n = 0; n < nearMax; n += 1) arrive();
  const last = window.coveredTo;
  assert.equal(window.arrive(last + 1, "strange" as TaskId, true), false);
  assert.equal(window.arrive(last + 2, idOf(last + 2), true), false);
  assert.equal(window.size, nearMax);
  assert.equal(window.coveredTo, last);
  while (window.size > 0) take(window);
  window.endRefill(
    [
      { number: last + 1, id: "strange" as TaskId },
      { number: last + 2, id: idOf(last + 2) },
    ],
    window.beginRefill(),
  );
  assert.deepEqual([take(window)?.id, take(window)?.id], ["strange", idOf(last + 2)]);
});

test("near, far and on disk: nothing is lost or given twice, in order, whatever the sizes", () => {
  const step = fc.record({
    kind: fc.constantFrom("arrive" as const, "arrive" as const, "take" as const),
    count: fc.integer({ min: 1, max: 3000 }),
  });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 12 }),
      fc.integer({ min: 1, max: 12_000 }),
      (steps, roomMax) => {
        const { window, index, arrive, refill } = setup(roomMax);
        let at = 0;
        const takeOne = (): void => {
          if (window.size === 0 && at < index.length) refillFrom(at);
          const taken = take(window);
          assert.deepEqual(taken, index[at]);
          if (taken !== undefined) at += 1;
        };
        // What was taken is not in the index any more.
        const refillFrom = (start: number): void => {
          index.splice(0, start);
          at = 0;
          refill(4096).end();
        };
        for (const { kind, count } of steps) {
          for (let n = 0; n < count; n += 1) {
            if (kind === "arrive") arrive();
            else takeOne();
          }
          assert.ok(window.size <= Math.max(roomMax, 4096));
        }
        while (at < index.length) takeOne();
        assert.equal(window.size, 0);
      },
    ),
    { numRuns: 30 },
  );
});

test("tasks that leave without being taken are passed over, wherever they stand", () => {
  const window = new ReadyWindow();
  const idOf = (n: number): TaskId =>
    `00000000-0000-7000-8000-${String(n).padStart(12, "0")}` as TaskId;
  const count = 10_000;
  for (let seq = 1; seq <= count; seq++) assert.ok(window.arrive(seq, idOf(seq), true));
  // The head, the near, and the far ones; the whole of the near part as well.
  const gone = new Set([1, 2, 7, 5000, count]);
  for (let seq = 3000; seq <= 4500; seq++) gone.add(seq);
  for (const seq of gone) assert.equal(window.leave(seq), true);
  assert.equal(window.size, count - gone.size);
  assert.equal(window.headSeq, 3);
  const taken: number[] = [];
  for (let next = window.take(); next !== undefined; next = window.take()) {
    taken.push(next.number);
    window.bringNear();
  }
  const left = Array.from({ length: count }, (_, at) => at + 1).filter((seq) => !gone.has(seq));
  assert.deepEqual(taken, left);
  assert.equal(window.size, 0);
});

test("a task behind the window leaves it as it is", () => {
  const window = new ReadyWindow();
  window.recover(9);
  assert.equal(window.leave(5), false);
  assert.deepEqual([window.size, window.departures], [0, 1]);
});

test("tasks that have left do not stay in memory", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const windows = Array.from({ length: 200 }, () => new ReadyWindow());
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let seq = 1; seq <= 1000; seq += 1) {
    for (const window of windows) {
      window.arrive(seq, idOf(seq), true);
      if (seq % 2 === 0) window.take();
      else if (seq > 1) window.leave(seq - 1);
    }
  }
  collect();
  const each = (process.memoryUsage().heapUsed - before) / windows.length;
  assert.ok(windows.every(({ size }) => size <= 2));
  assert.ok(each < 10_000, `${each} bytes for each`);
});
