import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import fc from "fast-check";
import { ReadyWindow } from "./ready-window.ts";

interface Entry {
  readonly seq: number;
  readonly id: TaskId;
}

/** A window over an index that holds everything which was not taken. */
function setup(roomMax = 8): {
  window: ReadyWindow;
  index: Entry[];
  arrive: () => void;
  refill: (limit: number) => { end: () => void };
} {
  const window = new ReadyWindow();
  const index: Entry[] = [];
  let seq = 0;
  const arrive = (): void => {
    // Other queues take numbers in between.
    seq += 1 + (seq % 3);
    const id = `task-${seq}` as TaskId;
    index.push({ seq, id });
    window.arrive(seq, id, window.size < roomMax);
  };
  const refill = (limit: number): { end: () => void } => {
    const newest = window.beginRefill();
    const behind = index.filter((entry) => entry.seq > window.coveredTo);
    const found = behind.slice(0, limit);
    const reached = found.length < behind.length ? (found.at(-1)?.seq ?? 0) : newest;
    return { end: () => window.endRefill(found, reached) };
  };
  return { window, index, arrive, refill };
}

test("what arrives in an empty queue is in memory at once", () => {
  const { window, arrive } = setup();
  arrive();
  arrive();
  assert.equal(window.size, 2);
  assert.equal(window.headSeq, window.take()?.seq);
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
  window.endRefill([{ seq: 7, id: "old" as TaskId }], 7);
  window.endRefill([{ seq: 51, id: "new" as TaskId }], window.beginRefill());
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
