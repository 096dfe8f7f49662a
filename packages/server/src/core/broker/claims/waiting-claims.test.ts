import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import fc from "fast-check";
import { SimClock } from "../../../../../simulated/src/index.ts";
import { AskedClaim, acme, umbrella, worker } from "../../../../test/broker-world.ts";
import { Queues } from "../queues/queue-state.ts";
import { WaitingClaims } from "./waiting-claims.ts";

function setup(): { clock: SimClock; queues: Queues; all: WaitingClaims } {
  const clock = new SimClock();
  const queues = new Queues(clock);
  return { clock, queues, all: new WaitingClaims(clock, queues) };
}

function claimOf(
  names: readonly string[] | undefined,
  fields: { readonly tenantId?: TenantId; readonly waitMs?: number } = {},
): AskedClaim {
  const { tenantId = acme, waitMs = 1000 } = fields;
  return new AskedClaim({
    tenantId,
    workerId: worker,
    queues: names,
    leaseMs: 1,
    count: 1,
    waitMs,
  });
}

/** How many claims wait, how many places they have, and how many of each tenant. */
function counted({ queues, all }: ReturnType<typeof setup>): unknown {
  const waiting = (tenantId: TenantId): number => queues.findTenant(tenantId)?.waiting ?? 0;
  return [all.size, all.listed, waiting(acme), waiting(umbrella)];
}

test("a claim is in the wait list of each of its queues, or in that of its tenant", () => {
  const world = setup();
  const { queues, all } = world;
  const both = claimOf(["a", "b"]);
  const any = claimOf(undefined);
  const foreign = claimOf(["a"], { tenantId: umbrella });
  for (const claim of [both, any, foreign]) all.wait(claim);
  assert.deepEqual(counted(world), [3, 4, 3, 1]);
  assert.equal(all.next(queues.queue(acme, "a")), both);
  assert.equal(all.next(queues.queue(acme, "b")), both);
  assert.equal(all.next(queues.queue(acme, "c")), any);
  assert.equal(all.next(queues.queue(umbrella, "a")), foreign);
  assert.equal(all.next(queues.queue(umbrella, "b")), undefined);
  assert.ok(all.leave(both));
  assert.equal(all.leave(both), false);
  assert.equal(all.next(queues.queue(acme, "a")), any);
  assert.deepEqual(counted(world), [2, 2, 1, 1]);
  assert.equal(both.asked.answer, undefined, "who leaves is answered by somebody else");
});

test("a wait ends with nothing when its time is up, once, and leaves no timer", async () => {
  const world = setup();
  const { clock, all } = world;
  const [short, long, endless] = [
    claimOf(["a"], { waitMs: 10 }),
    claimOf(["a"], { waitMs: 20 }),
    claimOf(undefined, { waitMs: Number.POSITIVE_INFINITY }),
  ];
  for (const claim of [short, long, endless]) all.wait(claim);
  assert.equal(clock.timers, 2);
  await clock.advance(10);
  assert.deepEqual(short.asked.answer, []);
  assert.equal(long.asked.answer, undefined);
  all.finish(long);
  assert.deepEqual(long.asked.answer, []);
  all.finish(long);
  assert.equal(clock.timers, 0);
  await clock.advance(1_000_000);
  assert.equal(endless.asked.answer, undefined);
  assert.deepEqual(counted(world), [1, 1, 1, 0]);
});

test("all waits can be ended, of every tenant, also of claims in several lists", () => {
  const world = setup();
  const { clock, all } = world;
  const claims = [
    claimOf(["a", "b", "c"]),
    claimOf(undefined),
    claimOf(["a"], { tenantId: umbrella }),
    claimOf(undefined, { tenantId: umbrella }),
  ];
  for (const claim of claims) all.wait(claim);
  all.finishAll();
  for (const { asked } of claims) assert.deepEqual(asked.answer, []);
  assert.deepEqual(counted(world), [0, 0, 0, 0]);
  assert.equal(clock.timers, 0);
});

test("who has waited longest is next, whatever it waits for, and however often it came", () => {
  const names = ["a", "b", "c"];
  const step = fc.record({
    kind: fc.constantFrom("wait", "wait", "again", "leave", "serve"),
    which: fc.nat(),
    queues: fc.option(fc.uniqueArray(fc.constantFrom(...names), { minLength: 1 }), {
      nil: undefined,
    }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
      const world = setup();
      const { queues, all } = world;
      const waiting: AskedClaim[] = [];
      const gone: AskedClaim[] = [];
      const leave = (claim: AskedClaim | undefined): void => {
        if (claim === undefined) return;
        assert.ok(all.leave(claim));
        waiting.splice(waiting.indexOf(claim), 1);
        gone.push(claim);
      };
      for (const { kind, which, queues: wanted } of steps) {
        if (kind === "leave") leave(waiting[which % waiting.length]);
        else if (kind === "serve") {
          const queue = queues.queue(acme, names[which % names.length] as string);
          leave(all.next(queue) as AskedClaim | undefined);
        } else {
          const again =
            kind === "again" ? gone.splice(which % (gone.length || 1), 1)[0] : undefined;
          const claim = again ?? claimOf(wanted, { waitMs: Number.POSITIVE_INFINITY });
          all.wait(claim);
          waiting.push(claim);
        }
        for (const name of names) {
          const expected = waiting.find((each) => each.queues?.includes(name) ?? true);
          assert.equal(all.next(queues.queue(acme, name)), expected);
        }
        const places = waiting.reduce((sum, { queues: own }) => sum + (own?.length ?? 1), 0);
        assert.deepEqual(counted(world), [waiting.length, places, places, 0]);
      }
    }),
    { numRuns: 100 },
  );
});
