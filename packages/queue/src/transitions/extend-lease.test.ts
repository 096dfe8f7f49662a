import assert from "node:assert/strict";
import { test } from "node:test";
import { leasedTask, nobody, otherWorker, taskIn, worker } from "../../test/build-task.ts";
import { noExtras } from "../task.ts";
import { extendLease } from "./extend-lease.ts";

const at = { nowMs: 20_000, leaseMs: 60_000, ranMs: 18_000, leftMs: 10_000 };

test("the lease starts anew from now", () => {
  const task = leasedTask();
  assert.deepEqual(extendLease(task, { workerId: worker, leaseToken: 2 }, at), {
    ok: true,
    value: {
      ...task,
      updatedMs: 20_000,
      place: { in: "leased", workerId: worker, untilMs: 80_000, leaseMs: 60_000, sinceMs: 2000 },
    },
  });
});

test("an extension by less than is left does not shorten the lease", () => {
  const until = (leftMs: number): number => {
    const asked = { ...at, leaseMs: 2000, leftMs };
    const extended = extendLease(leasedTask(), { workerId: worker }, asked);
    assert.ok(extended.ok);
    return extended.value.place.untilMs - at.nowMs;
  };
  assert.deepEqual(
    [300_000, 2000.5, 2000, 1999, -5000].map(until),
    [300_000, 2001, 2000, 2000, 2000],
  );
});

test("an extension keeps the token, so that the worker need not learn a new one", () => {
  const extended = extendLease(leasedTask(), { workerId: worker }, at);
  assert.equal(extended.ok && extended.value.leaseToken, 2);
});

test("a lease that has run out but was not taken back can still be extended", () => {
  const late = { nowMs: 1_000_000, leaseMs: 1000, ranMs: 998_000, leftMs: -900_000 };
  assert.equal(extendLease(leasedTask(), { workerId: worker }, late).ok, true);
});

test("whoever does not own the lease cannot extend it", () => {
  const notOwner = { ok: false, code: "not_owner" };
  assert.deepEqual(extendLease(leasedTask(), { workerId: otherWorker }, at), notOwner);
  assert.deepEqual(extendLease(leasedTask(), { workerId: nobody }, at), notOwner);
  assert.deepEqual(extendLease(leasedTask(), { workerId: worker, leaseToken: 1 }, at), notOwner);
});

test("a task that is not leased cannot be extended", () => {
  for (const where of ["ready", "delayed", "dead", "done"] as const) {
    const refused = extendLease(taskIn(where), { workerId: worker }, at);
    assert.deepEqual(refused, { ok: false, code: "not_in_progress" });
  }
});

test("a lease ends with the timeout of its task, however long its worker asks for", () => {
  const extras = { ...noExtras, timeoutMs: 30_000 };
  const until = (ranMs: number): number => {
    const extended = extendLease(leasedTask({ extras }), { workerId: worker }, { ...at, ranMs });
    assert.ok(extended.ok);
    return extended.value.place.untilMs - at.nowMs;
  };
  assert.deepEqual([18_000, 29_000.5, 30_000, 40_000].map(until), [12_000, 1000, 1, 1]);
});
