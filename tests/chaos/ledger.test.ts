import assert from "node:assert/strict";
import { test } from "node:test";
import { Ledger } from "./ledger.ts";

function setup(): Ledger {
  const ledger = new Ledger();
  ledger.created("work", 1, "id-1");
  ledger.claimed({ queue: "work", number: 1, id: "id-1", lease: 1, isOrdered: true });
  ledger.completed("id-1", 1);
  return ledger;
}

test("a campaign in which everything went well has no problems", () => {
  const ledger = setup();
  ledger.created("work", 1, "id-1");
  ledger.completed("id-1", 1);
  ledger.compare("id-1", { status: "COMPLETED", by: 1 }, "a");
  assert.deepEqual(ledger.problems, []);
  assert.equal(ledger.completions, 1);
});

test("it is noticed when a task is lost, has not ended, or ended otherwise than was told", () => {
  const ledger = setup();
  ledger.compare("id-1", undefined, "a");
  ledger.compare("id-1", { status: "PENDING", by: undefined }, "b");
  ledger.compare("id-1", { status: "COMPLETED", by: 2 }, "c");
  const [lost = "", pending = "", otherwise = ""] = ledger.problems;
  assert.match(lost, /^work\/1 \(id-1\) was acknowledged, and a does not have it/);
  assert.match(pending, /is PENDING on b in the end/);
  assert.match(otherwise, /completed under lease 1, and c says 2/);
});

test("it is noticed when a key stands for two tasks, and when a task ends twice", () => {
  const ledger = setup();
  ledger.created("work", 1, "id-2");
  ledger.completed("id-1", 2);
  const [twins = "", twice = ""] = ledger.problems;
  assert.match(twins, /^work\/1 was created twice, as id-1 and as id-2/);
  assert.match(twice, /^id-1 was completed under the leases 1 and 2/);
});

test("it is noticed when a lease is given out twice, and when a queue loses its order", () => {
  const ledger = setup();
  ledger.claimed({ queue: "work", number: 1, id: "id-1", lease: 1, isOrdered: false });
  ledger.claimed({ queue: "work", number: 0, id: "id-0", lease: 2, isOrdered: true });
  assert.equal(ledger.problems.length, 1, "a task that comes back has lost its place");
  ledger.claimed({ queue: "work", number: 0, id: "id-9", lease: 1, isOrdered: true });
  const [again = "", order = ""] = ledger.problems;
  assert.match(again, /^id-1 was given out twice with lease 1/);
  assert.match(order, /^work gave out number 0 after 1/);
});
