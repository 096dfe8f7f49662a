import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { placeNames, taskIn } from "../test/build-task.ts";
import { expiresMsOf, isExpired } from "./retention.ts";

test("a task that has not ended never expires, at any time", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("ready" as const, "delayed" as const, "leased" as const),
      fc.oneof(fc.maxSafeInteger(), fc.constant(Infinity)),
      (where, nowMs) => {
        assert.equal(expiresMsOf(taskIn(where)), undefined);
        assert.equal(isExpired(taskIn(where), nowMs), false);
      },
    ),
  );
});

test("a finished task expires at its time and not a millisecond before", () => {
  const task = taskIn("done");
  assert.equal(expiresMsOf(task), 86_402_000);
  assert.equal(isExpired(task, 86_401_999), false);
  assert.equal(isExpired(task, 86_402_000), true);
  assert.equal(isExpired(task, 86_402_001), true);
});

test("a dead task expires at its time and not a millisecond before", () => {
  const task = taskIn("dead");
  assert.equal(expiresMsOf(task), 604_802_000);
  assert.equal(isExpired(task, 604_801_999), false);
  assert.equal(isExpired(task, 604_802_000), true);
});

test("a dead task without an expiry is kept for ever", () => {
  const task = taskIn("dead", { place: { in: "dead", atMs: 2000, expiresMs: undefined } });
  assert.equal(expiresMsOf(task), undefined);
  assert.equal(isExpired(task, Number.MAX_SAFE_INTEGER), false);
});

test("expiry has an answer for every place", () => {
  assert.deepEqual(
    placeNames.filter((where) => isExpired(taskIn(where), Number.MAX_SAFE_INTEGER)),
    ["dead", "done"],
  );
});
