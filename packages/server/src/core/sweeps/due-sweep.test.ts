/** Moments that are planned while a sweep looks for others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId } from "@codeq/queue";
import { SimClock } from "@codeq/simulated";
import type { Position, Store } from "../store/store.ts";
import { DueSweep } from "./due-sweep.ts";

interface Wanted {
  readonly after: Position | undefined;
  readonly untilMs: number;
  readonly limit: number;
}

const keyOf = ({ number, id }: Position): string => `${String(number).padStart(9, "0")} ${id}`;

/** An index of moments in memory, whose scans take a while, and a sweep that removes what is due. */
function setup(act: (due: readonly Position[]) => void = () => {}) {
  const clock = new SimClock();
  const index = new Map<string, Position>();
  const done: string[] = [];
  let duringScan = (): void => {};
  const dueAfter = async (_: string, { after, untilMs, limit }: Wanted): Promise<Position[]> => {
    const from = after === undefined ? "" : keyOf(after);
    const found = [...index].filter(([key, { number }]) => key > from && number <= untilMs);
    duringScan();
    duringScan = () => {};
    return found
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .slice(0, limit)
      .map(([, position]) => position);
  };
  const sweep = new DueSweep({
    name: "test",
    store: { dueAfter, assertDeletable: () => {} } as unknown as Store,
    clock,
    batchMax: 10,
    stepMs: 100,
    index: "batches",
    act: async (due) => {
      act(due);
      for (const position of due) {
        index.delete(keyOf(position));
        done.push(position.id);
      }
    },
  });
  const add = (number: number, id: string): void => {
    const position = { number, id: id as TaskId };
    index.set(keyOf(position), position);
    sweep.plan(number);
  };
  return {
    sweep,
    clock,
    add,
    done,
    onScan: (run: () => void) => {
      duringScan = run;
    },
    runAll: async () => {
      for (let due = sweep.nextMs(); due !== undefined; due = sweep.nextMs()) {
        if (due > clock.monotonicMs()) break;
        await sweep.runOnce().catch(() => {});
      }
    },
  };
}

for (const isFirst of [true, false]) {
  test(`${isFirst ? "the first" : "a later"} scan does not pass by what is planned before what it finds`, async () => {
    const { add, done, onScan, runAll } = setup();
    if (!isFirst) {
      add(0, "k");
      await runAll();
    }
    add(0, "m");
    onScan(() => add(0, "a"));
    await runAll();
    assert.deepEqual(done.toSorted(), isFirst ? ["a", "m"] : ["a", "k", "m"]);
  });
}

test("what is planned while a later step fails is found as well", async () => {
  let steps = 0;
  const { add, done, onScan, runAll, sweep } = setup(() => {
    steps += 1;
    if (steps === 2) throw new Error("the disk is full");
  });
  const ids = Array.from({ length: 12 }, (_, number) => `m${String(number).padStart(2, "0")}`);
  for (const id of ids) add(0, id);
  await sweep.runOnce();
  onScan(() => add(0, "a"));
  await runAll();
  assert.deepEqual(done.toSorted(), ["a", ...ids]);
});
