/** Lanes keep their promises through crashes, and the checks of that find planted bugs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import { type Plant, runLanes } from "./lanes-run.ts";
import { importMutant, type Mutation } from "./mutant.ts";
import { runShares } from "./shares-run.ts";

const seeds = Array.from({ length: 40 }, (_, number) => `lanes-${number}`);
/** Of the command line; each showed a bug. */
const knownSeeds: Readonly<Record<string, string>> = {
  "lanes-315138": "a claim was answered twice when it met a task whose time to live was over",
};

for (const [seed, showed] of Object.entries(knownSeeds)) {
  test(`${seed} is sound, which showed that ${showed}`, async () => {
    assert.equal(await runLanes(seed), undefined);
  });
}

test(`${seeds.length} seeds are sound`, async () => {
  for (const seed of seeds) assert.equal(await runLanes(seed), undefined, seed);
});

function lanesOf({ queues }: ShardBroker) {
  return queues.lanesOf(queues.queue("acme" as never, "work"));
}

/** Only when a broker goes on after a full disk undid decisions, not when it starts. */
function onlyRecovered(plant: Plant): Plant {
  const started = new WeakSet<ShardBroker>();
  return (broker) => {
    if (started.has(broker)) plant(broker);
    started.add(broker);
  };
}

const bugs: Readonly<Record<string, { readonly plant: Plant; readonly finding: RegExp }>> = {
  "the end of a lease does not free its slot": {
    plant: (broker) => {
      const lanes = lanesOf(broker);
      lanes.unleased = (name) => lanes.offer(lanes.lane(name));
    },
    finding: /counts \d+ leases/,
  },
  "leases are not counted after a restart": {
    plant: (broker) => {
      for (const lane of lanesOf(broker).all()) lane.leased = 0;
    },
    finding: /counts \d+ leases|more leases/,
  },
  "leases that a claim is about to take do not count": {
    plant: (broker) => {
      const lanes = lanesOf(broker);
      const serve = lanes.serve.bind(lanes);
      lanes.serve = (window, cost) => {
        serve(window, cost);
        window.lane.reserved = 0;
        lanes.offer(window.lane);
      };
    },
    finding: /more leases than its limit|overtook/,
  },
  "what is spent is not written with the claim": {
    plant: (broker) => {
      broker.queues.lanes.takeWrites = () => [];
    },
    finding: /units that it did not have|while it was held|no timer/,
  },
  "a settled task is not settled": {
    plant: (broker) => {
      lanesOf(broker).settle = () => {};
    },
    finding: /units that it did not have|should be able|timer|the explanation/,
  },
  "a task whose lane is held loses its turn": {
    plant: (broker) => {
      const lanes = lanesOf(broker);
      const arrive = lanes.arrive.bind(lanes);
      let late = 1e9;
      lanes.arrive = (name, priority, position) => {
        late += 1;
        const isBack = broker.store.task(position.id)?.lane?.holds !== 0;
        arrive(name, priority, isBack ? { ...position, number: late } : position);
      };
    },
    finding: /overtook|counts|there/,
  },
  "nothing wakes a lane that waits for its rate": {
    plant: (broker) => {
      broker.queues.lanes.wait = () => {};
    },
    finding: /no timer|should be able/,
  },
  "nothing looks again when another task is next for the rate of a queue": {
    plant: (broker) => {
      for (const queue of broker.queues.all()) broker.queues.lanesOf(queue).recheck = () => {};
    },
    finding: /should be able|a claim waits|no timer/,
  },
  "another rate forgets what was spent": {
    plant: (broker) => {
      for (const { allowance } of lanesOf(broker).all()) allowance.unitMs = 0;
      const lanes = lanesOf(broker);
      const setPolicy = lanes.setPolicy.bind(lanes);
      lanes.setPolicy = (...policy) => {
        for (const { allowance } of lanes.all()) allowance.wholeMs = 0;
        setPolicy(...policy);
      };
    },
    finding: /units that it did not have|should be able|no timer/,
  },
  "a task that was not sent costs what it would have cost": {
    plant: (broker) => {
      const { release } = broker;
      broker.release = (of) => {
        const lanes = lanesOf(broker);
        const { settle } = lanes;
        lanes.settle = () => {};
        release.call(broker, of);
        lanes.settle = settle;
      };
    },
    finding: /should be able|no timer|the explanation/,
  },
  "a moved task takes the slot of its lane with it": {
    plant: (broker) => {
      const lanes = lanesOf(broker);
      const { depart } = lanes;
      lanes.depart = (name, priority, seq) => {
        depart.call(lanes, name, priority, seq);
        lanes.lane(name).leased += 1;
      };
    },
    finding: /counts \d+ leases/,
  },
  "an explanation does not know the limit": {
    plant: (broker) => {
      lanesOf(broker).obstacleOf = () => undefined;
    },
    finding: /the explanation of/,
  },
  "a lane at its limit is not offered again": {
    plant: (broker) => {
      const lanes = lanesOf(broker);
      lanes.unleased = (name) => {
        lanes.lane(name).leased -= 1;
      };
    },
    finding: /should be able|no timer/,
  },
  "a restart forgets which lanes are paused": {
    plant: (broker) => {
      const lanes = lanesOf(broker);
      for (const [name, limits] of lanes.limits) {
        lanes.setLimits(name, { ...limits, pause: undefined });
      }
    },
    finding: /during a pause|the explanation of/,
  },
  "a full disk that undoes a claim frees the slots of others": {
    plant: onlyRecovered((broker) => {
      for (const lane of lanesOf(broker).all()) lane.leased = 0;
    }),
    finding: /counts \d+ leases|more leases/,
  },
  "after a full disk lanes have spent nothing": {
    plant: onlyRecovered(({ queues }) => {
      for (const { lanes } of queues.all()) {
        for (const { allowance } of lanes?.all() ?? []) allowance.wholeMs = 0;
        lanes?.offerAll();
      }
    }),
    finding: /units that it did not have|should be able|no timer|the explanation/,
  },
};

for (const [bug, { plant, finding }] of Object.entries(bugs)) {
  test(`it is noticed when ${bug}`, async () => {
    for (const seed of seeds) {
      const found = await runLanes(seed, plant).catch((error: Error) => error.message);
      if (found === undefined) continue;
      assert.match(found, finding);
      return;
    }
    assert.fail("no seed has noticed it");
  });
}

test("it is noticed when a clock that is set back gives units back", async () => {
  const { runLanes: run } = await importMutant<{ runLanes: typeof runLanes }>(
    new URL("./lanes-run.ts", import.meta.url),
    {
      file: "packages/server/src/core/records/lane-record.ts",
      from: "Math.max(0, clock.nowMs() - atMs)",
      to: "Math.abs(clock.nowMs() - atMs)",
    },
  );
  for (const seed of seeds) {
    const found = await run(seed);
    if (found === undefined) continue;
    assert.match(found, /units that it did not have|while it was held/);
    return;
  }
  assert.fail("no seed has noticed it");
});

const shareSeeds = Array.from({ length: 40 }, (_, number) => `shares-${number}`);

test(`in ${shareSeeds.length} seeds lanes get shares by weight, within the largest cost of each`, async () => {
  for (const seed of shareSeeds) assert.equal(await runShares(seed), undefined, seed);
});

const shareBugs: readonly (Mutation & { readonly bug: string })[] = [
  {
    bug: "weights do not count",
    file: "packages/queue/src/lanes/fair-share.ts",
    from: "return start + cost / weight;",
    to: "return start + cost / (weight > 0 ? 1 : 2);",
  },
  {
    bug: "costs do not count",
    file: "packages/queue/src/lanes/fair-share.ts",
    from: "return start + cost / weight;",
    to: "return start + (cost > 0 ? 1 : 2) / weight;",
  },
  {
    bug: "a lane without tasks saves up turns",
    file: "packages/queue/src/lanes/fair-share.ts",
    from: "return Math.max(presentTag, endTag);",
    to: "return presentTag < 0 ? 0 : endTag;",
  },
  {
    bug: "tasks without a lane go first",
    file: "packages/server/src/core/broker/lanes/fair-order.ts",
    from: "return this.#plainStart <= window.dueMs ? undefined : window;",
    to: "return undefined;",
  },
];

for (const { bug, ...mutation } of shareBugs) {
  test(`it is noticed when ${bug}`, async () => {
    const run = new URL("./shares-run.ts", import.meta.url);
    const mutant = await importMutant<{ runShares: typeof runShares }>(run, mutation);
    for (const seed of shareSeeds) {
      const found = await mutant.runShares(seed);
      if (found === undefined) continue;
      assert.match(found, /apart, not/);
      return;
    }
    assert.fail("no seed has noticed it");
  });
}
