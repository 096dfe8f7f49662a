import assert from "node:assert/strict";
import { test } from "node:test";
import { FaultError } from "@codeq/engine";
import { type Change, changeOf, type Task } from "@codeq/queue";
import { settle } from "../../../../simulated/src/index.ts";
import {
  BrokerWorld,
  claim,
  create,
  enqueue,
  owned,
  submit,
  success,
} from "../../../test/broker-world.ts";
import { systemClock } from "../clock.ts";
import { GroupAnswers } from "./group-answers.ts";
import type { Waiter } from "./verbs.ts";

function change(name: string): Change {
  return changeOf(undefined, { id: name } as unknown as Task, "created");
}

/** Everything that anybody is told, in order. */
function setup(): {
  told: string[];
  groups: readonly [changes: number, ms: number][];
  outcome: GroupAnswers;
  waiter: (name: string, then?: () => void) => Waiter<string>;
} {
  const told: string[] = [];
  const groups: [changes: number, ms: number][] = [];
  let nowMs = 40;
  const outcome = new GroupAnswers({
    clock: { ...systemClock, monotonicMs: () => nowMs++ },
    observe: ({ after }) => {
      told.push(`changed ${after?.id}`);
      if (after?.id.includes("broken")) throw new Error(`observer of ${after.id}`);
    },
    observeGroup: (changes, ms) => groups.push([changes.length, ms]),
  });
  const waiter = (name: string, then: () => void = () => {}): Waiter<string> => ({
    durable: (answer, item) => {
      told.push(`${name} ${answer} ${item}`);
      then();
    },
    refused: (why, item) => {
      told.push(`${name} refused ${why.code} ${item}`);
      then();
    },
  });
  return { told, groups, outcome, waiter };
}

const full = new FaultError("disk_full", "no room");

test("those who watch hear of every change, in order, before anybody is answered", () => {
  const { told, groups, outcome, waiter } = setup();
  outcome.add(change("a"));
  outcome.answer(waiter("first"), "made a", 0);
  outcome.add(change("b"));
  outcome.add(change("c"));
  outcome.answer(waiter("second"), "made b and c", 7);
  assert.deepEqual(told, []);
  outcome.durable();
  assert.deepEqual(groups, [[3, 1]], "how long the group took");
  assert.deepEqual(told, [
    "changed a",
    "changed b",
    "changed c",
    "first made a 0",
    "second made b and c 7",
  ]);
});

test("of what was not kept only those who asked hear, with why", () => {
  const { told, outcome, waiter } = setup();
  outcome.add(change("a"));
  const batch = waiter("batch");
  outcome.answer(batch, "x", 0);
  outcome.answer(batch, "y", 1);
  outcome.refused(full);
  assert.deepEqual(told, ["batch refused disk_full 0", "batch refused disk_full 1"]);
});

test("who throws keeps nobody from being told, and what it threw is not swallowed", () => {
  const { told, outcome, waiter } = setup();
  outcome.add(change("broken a"));
  outcome.add(change("b"));
  outcome.answer(
    waiter("first", () => {
      throw new Error("first waiter");
    }),
    "x",
    0,
  );
  outcome.answer(waiter("second"), "y", 0);
  assert.throws(() => outcome.durable(), { message: "observer of broken a" });
  assert.deepEqual(told, ["changed broken a", "changed b", "first x 0", "second y 0"]);
});

test("the same when it was not kept", () => {
  const { told, outcome, waiter } = setup();
  const throwing = waiter("first", () => {
    throw new Error("first waiter");
  });
  outcome.answer(throwing, "x", 0);
  outcome.answer(throwing, "x", 1);
  outcome.answer(waiter("second"), "y", 0);
  assert.throws(() => outcome.refused(full), { message: "first waiter" });
  assert.deepEqual(told, [
    "first refused disk_full 0",
    "first refused disk_full 1",
    "second refused disk_full 0",
  ]);
});

test("a broker tells of changes in the order of its decisions, each once, when they are durable", async () => {
  const world = new BrokerWorld();
  const broker = await world.open();
  const told: string[] = [];
  const names = new Map<string, string>();
  world.observe = ({ after, because }) => {
    const id = after?.id as string;
    names.set(id, names.get(id) ?? `task ${names.size + 1}`);
    told.push(`${because} ${names.get(id)}`);
  };
  const waiting = claim(broker, { waitMs: 1000 });
  const gate = Promise.withResolvers<void>();
  world.disk.slow("sync", gate.promise);
  const first = create(broker);
  const second = create(broker);
  void first.done.then(() => told.push("first answered"));
  void second.done.then(() => told.push("second answered"));
  void waiting.then(() => told.push("claim answered"));
  await settle();
  assert.deepEqual(told, []);
  gate.resolve();
  const [claimed] = await waiting;
  await settle();
  assert.deepEqual(told, [
    "created task 1",
    "claimed task 1",
    "created task 2",
    "first answered",
    "claim answered",
    "second answered",
  ]);
  told.length = 0;
  await submit(broker, owned(claimed!.task), success).done;
  assert.deepEqual(told, ["finished task 1"]);
});

test("of what a full disk undid nobody who watches hears anything", async () => {
  const world = new BrokerWorld();
  const broker = await world.open();
  await enqueue(broker);
  const told: string[] = [];
  world.observe = ({ because }) => told.push(because);
  world.disk.failNext("write", "ENOSPC");
  const [created, claimed] = [create(broker), claim(broker)];
  await assert.rejects(created.done, { code: "disk_full" });
  await assert.rejects(claimed, { code: "disk_full" });
  await settle();
  assert.deepEqual(told, []);
});
