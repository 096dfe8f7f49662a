import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type FoundCopy, type FoundState, planRepair } from "./repair-plan.ts";

const logId = 7;
const log = { logId, first: 10, last: 100 };

function copy(node: string, slot: number, more: Partial<FoundCopy> = {}): FoundCopy {
  const well = { isFollowing: true, hasDiverged: false, isDamaged: false };
  return { node, ...well, stored: { logId, epoch: 3, slot }, ...more };
}

const state = (found: Partial<FoundState>): FoundState => ({
  log,
  copies: [copy("a", 100), copy("b", 99), copy("c", 90)],
  absent: [],
  ...found,
});

test("does nothing when all nodes follow the log", () => {
  assert.deepEqual(planRepair(state({})), { action: "none" });
  const empty = copy("c", 0, { isFollowing: false, stored: undefined });
  const joining = state({ copies: [copy("a", 100), copy("b", 99), empty] });
  assert.deepEqual(planRepair(joining), { action: "none" }, "a new node copies by itself");
  const starting = state({ copies: [copy("a", 100), copy("b", 9, { isFollowing: false })] });
  assert.deepEqual(planRepair(starting), { action: "none" }, "a node that starts reads the log");
});

test("has a node copy that follows no longer, while another one has the log", () => {
  const diverged = copy("c", 95, { isFollowing: false, hasDiverged: true });
  const of = (wrong: FoundCopy): FoundState => state({ copies: [copy("a", 100), wrong] });
  const copies = { action: "copy", nodes: ["c"], logId };
  assert.deepEqual(planRepair(of(diverged)), copies);
  const other = copy("c", 200, { isFollowing: false, stored: { logId: 8, epoch: 9, slot: 200 } });
  assert.deepEqual(planRepair(of(other)), copies);
  const damaged = copy("c", 0, { isFollowing: false, stored: undefined, isDamaged: true });
  assert.deepEqual(planRepair(of(damaged)), copies);
});

test("continues the newest copy when the log is gone, or shorter than what was read", () => {
  const later = copy("b", 90, { stored: { logId, epoch: 4, slot: 90 } });
  const copies = [copy("a", 100), later, copy("c", 80)];
  const renewed = { action: "renew", from: "b", nodes: ["a", "c"] };
  assert.deepEqual(planRepair(state({ log: undefined, copies })), renewed);
  assert.deepEqual(planRepair(state({ log: { ...log, last: 50 }, copies })), renewed);
});

test("refuses what may cost data", () => {
  const why = (found: FoundState): string => {
    const plan = planRepair(found);
    return plan.action === "refused" ? plan.why : plan.action;
  };
  assert.match(why(state({ log: undefined, absent: ["c"] })), /c did not answer.*--without/);
  const other = copy("b", 9, { stored: { logId: 8, epoch: 1, slot: 9 } });
  assert.match(why(state({ log: undefined, copies: [copy("a", 1), other] })), /different logs/);
  assert.match(why(state({ log: { ...log, logId: 99 } })), /which no node has followed/);
  const none = copy("a", 0, { stored: undefined });
  assert.match(why(state({ log: undefined, copies: [none] })), /no node has data/);
  assert.match(why(state({ copies: [none], from: "a" })), /a has no data/);
});

test("continues the data of a node that somebody has decided for", () => {
  const other = copy("b", 9, { stored: { logId: 8, epoch: 1, slot: 9 } });
  const found = state({ log: undefined, copies: [copy("a", 1), other], from: "b" });
  assert.deepEqual(planRepair(found), { action: "renew", from: "b", nodes: ["a"] });
});

test("never has the newest copy of a log thrown away", () => {
  const places = fc.record({
    logId: fc.constantFrom(7, 8),
    epoch: fc.nat(3),
    slot: fc.nat(20),
  });
  const found = fc.record({
    log: fc.option(
      fc.record({ logId: fc.constantFrom(7, 8), first: fc.nat(10), last: fc.nat(20) }),
      { nil: undefined },
    ),
    copies: fc
      .array(
        fc.record({
          isFollowing: fc.boolean(),
          hasDiverged: fc.boolean(),
          isDamaged: fc.boolean(),
          stored: fc.option(places, { nil: undefined }),
        }),
        { minLength: 1, maxLength: 5 },
      )
      .map((all) => all.map((each, at) => ({ ...each, node: String(at) }))),
    absent: fc.constant([]),
  });
  fc.assert(
    fc.property(found, ({ log: there, copies, absent }) => {
      const plan = planRepair({ log: there, copies, absent });
      if (plan.action === "none" || plan.action === "refused") return;
      const left = copies.filter(({ node }) => !plan.nodes.includes(node));
      assert.ok(left.length > 0, "somebody keeps the data");
      const thrown = copies.filter(({ node }) => plan.nodes.includes(node));
      for (const { stored } of thrown) {
        if (stored === undefined) continue;
        const isKept = left.some(({ stored: kept }) => {
          if (kept === undefined || kept.logId !== stored.logId) return false;
          return (
            kept.epoch > stored.epoch || (kept.epoch === stored.epoch && kept.slot >= stored.slot)
          );
        });
        // Of a log that is whole, whoever follows it reads everything that it has.
        const isInLog = there?.logId === stored.logId && stored.slot <= there.last;
        const isOther = plan.action === "copy" && stored.logId !== plan.logId;
        assert.ok(isKept || isInLog || isOther);
      }
    }),
  );
});
