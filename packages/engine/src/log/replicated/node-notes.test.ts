import assert from "node:assert/strict";
import { test } from "node:test";
import { NodeNotes } from "./node-notes.ts";

const hourMs = 3_600_000;

interface Setup {
  readonly notes: NodeNotes;
  /** Lets another node say something. */
  readonly hear: (
    node: string,
    about: { slot?: number; isFull?: boolean; aheadMs?: number; instance?: number },
  ) => void;
  readonly pass: (ms: number) => void;
}

function setup(): Setup {
  let nowMs = 1_000_000;
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, after: () => () => {} };
  const nodes = ["a", "b", "c"];
  const notes = new NodeNotes({ self: "a", nodes, clock, instance: 7, keptMs: 35_000 });
  return {
    notes,
    hear: (node, { slot = 0, isFull = false, aheadMs = 0, instance = 1 }) =>
      notes.read(JSON.stringify({ node, slot, isFull, nowMs: nowMs + aheadMs, instance })),
    pass: (ms) => {
      nowMs += ms;
    },
  };
}

test("what a majority has made durable is known from the notes", () => {
  const { notes, hear } = setup();
  assert.equal(notes.majoritySlot, 0);
  notes.write({ slot: 100, read: 100, isFull: false });
  assert.equal(notes.majoritySlot, 0, "one of three is no majority");
  hear("b", { slot: 40 });
  assert.equal(notes.majoritySlot, 40);
  hear("c", { slot: 70 });
  assert.equal(notes.majoritySlot, 70);
  hear("c", { slot: 10 });
  assert.equal(notes.majoritySlot, 40, "a node that lost its disk says so");
});

test("a node whose clock is two hours off is told by both others, and by one of them not", () => {
  const { notes, hear, pass } = setup();
  hear("b", { aheadMs: 2 * hourMs });
  assert.equal(notes.clockProblem, undefined, "nobody knows which of the two is right");
  hear("c", { aheadMs: 2 * hourMs + 100 });
  assert.match(notes.clockProblem ?? "", /is 7200 s behind the clocks of b and c.*NTP/);
  assert.equal(notes.problem, notes.clockProblem);
  hear("b", { aheadMs: 20 });
  assert.equal(notes.clockProblem, undefined);
  hear("b", { aheadMs: -2 * hourMs });
  hear("c", { aheadMs: -2 * hourMs });
  assert.match(notes.clockProblem ?? "", /is 7200 s ahead of the clocks of b and c/);
  pass(35_000);
  assert.equal(notes.clockProblem, undefined, "others that are silent may have been corrected");
});

test("clocks may differ by some seconds", () => {
  const { notes, hear } = setup();
  for (const node of ["b", "c"]) hear(node, { aheadMs: 30_000 });
  assert.equal(notes.problem, undefined);
});

test("a second server with the same id is noticed, until it is gone", () => {
  const { notes, pass } = setup();
  notes.read(notes.write({ slot: 5, read: 5, isFull: false }));
  for (const odd of ["{", "null", "7", '{"node":7}']) notes.read(odd);
  assert.equal(notes.problem, undefined, "the log servers repeat what this node says");
  notes.read(JSON.stringify({ node: "a", slot: 3, nowMs: 0, instance: 8 }));
  assert.match(notes.problem ?? "", /another server runs with nodeId a, too.*id of its own/);
  pass(35_000);
  assert.equal(notes.problem, undefined);
});

test("the node with room is the one that is furthest, and has said so lately", () => {
  const { notes, hear, pass } = setup();
  assert.equal(notes.nodeWithSpace(0), undefined);
  hear("b", { slot: 40 });
  hear("c", { slot: 70 });
  assert.equal(notes.nodeWithSpace(0), "c");
  hear("c", { slot: 80, isFull: true });
  assert.equal(notes.nodeWithSpace(0), "b");
  assert.equal(notes.nodeWithSpace(1_000_000), undefined, "not since then");
  pass(hourMs);
  assert.equal(notes.nodeWithSpace(0), undefined);
});
