import assert from "node:assert/strict";
import { test } from "node:test";
import type { Task } from "@codeq/queue";
import type { ClaimRequest } from "../../packages/server/src/core/broker/claims/claim.ts";
import { RemoteShard } from "../../packages/server/src/core/shards/remote-shard.ts";
import { Router } from "../../packages/server/src/core/shards/router.ts";
import { SharedUsage } from "../../packages/server/src/core/shards/shared-usage.ts";
import { campaignLength } from "../campaign-length.ts";
import { trackNoPromises } from "../untracked-promises.ts";
import { importMutant, type Mutation } from "./mutant.ts";
import { type ShardedOutcome, simulateShards } from "./sharded-run.ts";
import { uniqueBugs } from "./unique-bugs.ts";

trackNoPromises();

const seedsEach = campaignLength({ short: 15, long: 300 });
const uniqueSeeds = campaignLength({ short: 8, long: 150 });
const batchSeeds = campaignLength({ short: 8, long: 150 });
const laneSeeds = campaignLength({ short: 8, long: 150 });
const seedsOfBugs = Math.max(uniqueSeeds, batchSeeds, 20);
const outcomes = new Map<number, Promise<ShardedOutcome>>();

/** Seeds that several tests need run once. */
function outcomeOf(seed: number): Promise<ShardedOutcome> {
  const outcome = outcomes.get(seed) ?? simulateShards({ seed });
  outcomes.set(seed, outcome);
  return outcome;
}

test(`${seedsEach} seeds of routers and shards are sound`, async (context) => {
  const found = new Set<number>();
  const totals = { acknowledged: 0, claimed: 0, crashes: 0 };
  for (let seed = 1; seed <= seedsEach; seed += 1) {
    const outcome = await outcomeOf(seed);
    assert.equal(outcome.finding, undefined, `seed ${seed} with ${outcome.shards} shards`);
    found.add(outcome.shards);
    totals.acknowledged += outcome.acknowledged;
    totals.claimed += outcome.claimed;
    totals.crashes += outcome.crashes;
  }
  context.diagnostic(JSON.stringify(totals));
  assert.deepEqual([...found].sort(), [1, 2, 3, 8]);
});

test(`${uniqueSeeds} seeds with unique keys are sound`, async () => {
  for (let seed = 1; seed <= uniqueSeeds; seed += 1) {
    const { finding } = await simulateShards({ seed, hasUnique: true });
    assert.equal(finding, undefined, `seed ${seed}`);
  }
});

test(`${batchSeeds} seeds with batches are sound`, async (context) => {
  let released = 0;
  for (let seed = 1; seed <= batchSeeds; seed += 1) {
    const outcome = await simulateShards({ seed, hasBatches: true });
    assert.equal(outcome.finding, undefined, `seed ${seed} with ${outcome.shards} shards`);
    released += outcome.released;
  }
  context.diagnostic(JSON.stringify({ released }));
  assert.ok(released > 0);
});

test(`${laneSeeds} seeds with lanes are sound`, async () => {
  for (let seed = 1; seed <= laneSeeds; seed += 1) {
    const { finding } = await simulateShards({ seed, hasLanes: true });
    assert.equal(finding, undefined, `seed ${seed}`);
  }
});

/** Replaces a method while a seed runs. */
interface PlantedBug {
  readonly bug: string;
  readonly says: RegExp;
  readonly plant: () => Disposable;
}

function replace<T extends object, Name extends keyof T>(
  of: T,
  name: Name,
  make: (before: T[Name]) => T[Name],
): Disposable {
  const before = of[name];
  of[name] = make(before);
  return {
    [Symbol.dispose]: () => {
      of[name] = before;
    },
  };
}

/** Some shards are not asked; the answer is this one. */
function forgetAt(
  isAt: (shard: RemoteShard) => boolean,
  name: string,
  answer: () => Promise<unknown>,
): Disposable {
  return replace(RemoteShard.prototype, "ask", (ask) => {
    return function asked(this: RemoteShard, ...given: Parameters<typeof ask>) {
      const isForgotten = given[0] === name && isAt(this);
      return isForgotten ? answer() : ask.apply(this, given);
    } as typeof ask;
  });
}

const plantedBugs: readonly PlantedBug[] = [
  {
    bug: "a claim is offered to two shards",
    says: /answered once|leases, the quota is|given out twice|what the router counts/,
    plant: () => {
      const shards = new Set<RemoteShard>();
      return replace(RemoteShard.prototype, "claim", (claim) => {
        return function offered(this: RemoteShard, request: ClaimRequest, waiter) {
          shards.add(this);
          for (const other of shards) if (other !== this) claim.call(other, request, waiter);
          return claim.call(this, request, waiter);
        };
      });
    },
  },
  {
    bug: "what a shard has carried out is counted twice",
    says: /what the router counts/,
    plant: () => replace(SharedUsage.prototype, "carriedOut", () => () => {}),
  },
  {
    bug: "an idempotency key has a task in two shards",
    says: /stands for/,
    plant: () => {
      let turn = 0;
      return replace(Router.prototype, "enqueue", () => {
        return function anywhere(this: Router, input, waiter, item = 0) {
          turn += 1;
          this.enqueueAt(turn % this.shards.length, input, waiter as never, item);
        };
      });
    },
  },
  {
    bug: "a pause does not reach every shard",
    says: /was claimed, .* is paused/,
    plant: () =>
      forgetAt(
        ({ number }) => number > 0,
        "pause",
        () => Promise.resolve(null),
      ),
  },
  {
    bug: "counts leave out a shard that is there",
    says: /are counted, there are/,
    plant: () =>
      forgetAt(
        ({ number }) => number === 0,
        "counts",
        () => Promise.reject(new Error("planted")),
      ),
  },
  {
    bug: "a task that has ended is said to be cancelled or replayed",
    says: /has ended, and (cancel|replay) was accepted/,
    plant: () =>
      replace(Router.prototype, "act", (act) => {
        return async function accepted(this: Router, ...given) {
          const acted = await act.apply(this, given);
          if (acted.ok || acted.code === "task_unknown") return acted;
          return { ok: true, task: { place: { in: "ready" } } as Task };
        };
      }),
  },
  {
    bug: "leases under way to a shard are not counted",
    says: /leases, the quota is/,
    plant: () =>
      replace(SharedUsage.prototype, "send", () => () => {
        // Nothing is noted.
      }),
  },
];

for (const { bug, says, plant } of plantedBugs) {
  test(`it is noticed when ${bug}`, async () => {
    for (let seed = 1; seed <= 60; seed += 1) {
      const planted = plant();
      const { finding } = await simulateShards({ seed }).finally(() => planted[Symbol.dispose]());
      if (finding === undefined) continue;
      assert.match(finding, says);
      const without = await outcomeOf(seed);
      assert.equal(without.finding, undefined, "the same seed is sound without the bug");
      return;
    }
    assert.fail("60 seeds passed with the bug");
  });
}

type Mutant = Mutation & { readonly bug: string; readonly says: RegExp };

const homelessKeys: readonly Mutant[] = [
  {
    bug: "a unique key has no home, so each shard has tasks of it",
    file: "packages/server/src/core/shards/router.ts",
    from: "= homeOf(input, isPlaced);",
    to: "= homeOf({ ...input, unique: input.unique && { key: input.unique.key + input.priority } }, isPlaced);",
    says: /live tasks|entries in two shards/,
  },
];

const shardBroker = "packages/server/src/core/broker/shard-broker.ts";

const batchBugs: readonly Mutant[] = [
  {
    bug: "a member of a batch is in another shard than the batch",
    file: "packages/server/src/core/shards/router.ts",
    from: "shardOfBatch({ tenantId, id: batchId }, count)",
    to: "this.#nextShard()",
    says: /was put and is unknown/,
  },
  {
    bug: "what a batch counts is written only with some ends",
    file: shardBroker,
    from: "...scheduled.writes, ...batched.writes, ...laned",
    to: "...scheduled.writes, ...(batched.changes.length > 1 ? batched.writes : []), ...laned",
    says: /pending|no member|is gone|waits for nothing|its callback|and is (sealed|open)/,
  },
  {
    bug: "the callback is released in another record than the last end",
    file: "packages/server/src/core/broker/batches.ts",
    from: "      this.#decide(entry, changes);",
    to:
      "if (given.length === 0) this.#decide(entry, changes); " +
      "else this.#parts.clock.after(2000, () => this.#parts.apply([], [entry], []).catch(() => {}));",
    says: /waits for nothing|its callback|is sealed/,
  },
  {
    bug: "members are added after the seal",
    file: "packages/server/src/core/broker/batches.ts",
    from: 'if (phase !== "open" || entry.record.openUntilMs <= this.#nowMs) return "batch_sealed";',
    to: "",
    says: /was told of \d+ of \d+ members|says \d+, not \d+ pending/,
  },
];

const queueLanes = "packages/server/src/core/broker/lanes/queue-lanes.ts";

const laneBugs: readonly Mutant[] = [
  {
    bug: "a lane has no home, so each shard has tasks of it",
    file: "packages/server/src/core/shards/shard-of.ts",
    from: 'if (lane !== "") return',
    to: 'if (lane !== "" && idempotencyKey === "none") return',
    says: /has \d+ leases, its limit is|spent \d of|overtook/,
  },
  {
    bug: "a shard that comes back does not count the leases of its lanes",
    file: "packages/server/src/core/broker/queues/memory-index.ts",
    from: 'leases.add(task, graceMsOf(task.place.leaseMs));\n      if (laneOf(task) !== "")',
    to: 'leases.add(task, graceMsOf(task.place.leaseMs));\n      if (laneOf(task) === "none")',
    says: /has \d+ leases, its limit is|counts -?\d+ leases/,
  },
  {
    bug: "a shard that comes back does not know what its lanes have spent",
    file: queueLanes,
    from: "Object.assign(allowance, moments, { hasRecord: true });",
    to: "Object.assign(allowance, { heldMs: moments.heldMs }, { hasRecord: true });",
    says: /spent \d of/,
  },
  {
    bug: "a shard that comes back does not know which lanes are held",
    file: queueLanes,
    from: "Object.assign(allowance, moments, { hasRecord: true });",
    to: "Object.assign(allowance, { wholeMs: moments.wholeMs }, { hasRecord: true });",
    says: /was claimed from while held/,
  },
  {
    bug: "the end of a lease does not offer its lane again",
    file: queueLanes,
    from: "lane.leased -= 1;\n    this.offer(lane);",
    to: "lane.leased -= 1;",
    says: /waits beside|does not end/,
  },
  {
    bug: "a lane is served from its low priorities",
    file: "packages/server/src/core/broker/lanes/lane.ts",
    from: "window.priority > top.priority",
    to: "window.priority < top.priority",
    says: /overtook/,
  },
];

const run = new URL("./sharded-run.ts", import.meta.url);

const ofUnique = [...homelessKeys, ...uniqueBugs].map((each) => ({
  ...each,
  kind: { hasUnique: true },
}));
const ofBatches = batchBugs.map((each) => ({ ...each, kind: { hasBatches: true } }));
const ofLanes = laneBugs.map((each) => ({ ...each, kind: { hasLanes: true } }));

for (const { bug, says, kind, ...mutation } of [...ofUnique, ...ofBatches, ...ofLanes]) {
  test(`it is noticed when ${bug}`, async () => {
    const mutant = await importMutant<{ simulateShards: typeof simulateShards }>(run, mutation);
    for (let seed = 1; seed <= seedsOfBugs; seed += 1) {
      const { finding } = await mutant.simulateShards({ seed, ...kind });
      if (finding === undefined) continue;
      assert.match(finding, says);
      return;
    }
    assert.fail("no seed has noticed it");
  });
}
