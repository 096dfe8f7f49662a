/**
 * Lanes with weights that get and run out of tasks of random costs, with claims in between. In the order of the log, for
 * any two lanes and any time in which both have ready tasks:
 *
 *   |served / weight - served' / weight'| <= largest cost / weight + largest cost' / weight'
 *
 * The tasks without a lane count as one more lane.
 */
import { type Change, costOf, laneOf, type Task } from "@codeq/queue";
import { SimRandom } from "@codeq/simulated";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import { noLaneLimits } from "../../packages/server/src/core/records/lane-policy.ts";
import type { TopicPolicy } from "../../packages/server/src/core/records/topic-record.ts";
import { acme, BrokerWorld, claim, create } from "../../packages/server/test/broker-world.ts";

const weights: Readonly<Record<string, number>> = { "": 1, a: 1, b: 3, c: 7 };
const names = Object.keys(weights);
const policy: TopicPolicy = {
  priorityTiers: [0],
  maxAttempts: 3,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers: 0,
  placement: "spread",
};
const stepsOfRun = 200;
const rounding = 1e-6;

/** The first promise that a seed breaks; undefined for a sound run. The topic gives the weight of "b". */
export async function runShares(seed: string): Promise<string | undefined> {
  const world = new BrokerWorld();
  const run = new SharesRun(new SimRandom(seed), await world.open());
  world.observe = (change) => run.observe(change);
  await run.begin();
  for (let step = 0; step < stepsOfRun; step++) {
    await run.step();
    if (run.finding !== undefined) return `step ${step}: ${run.finding}`;
  }
  return undefined;
}

interface Share {
  readonly largest: number;
  ready: number;
  /** Units by weight. */
  served: number;
}

class SharesRun {
  finding: string | undefined;
  readonly #random: SimRandom;
  readonly #broker: ShardBroker;
  readonly #shares: ReadonlyMap<string, Share>;
  /** What lies between two lanes: its least and its most since both have had tasks. */
  readonly #between: Map<string, { least: number; most: number }> = new Map();

  constructor(random: SimRandom, broker: ShardBroker) {
    this.#random = random;
    this.#broker = broker;
    this.#shares = new Map(
      names.map((name) => [name, { largest: random.pick([1, 5, 40]), ready: 0, served: 0 }]),
    );
  }

  async begin(): Promise<void> {
    const of = { tenantId: acme, name: "work" };
    await this.#broker.putTopic(of, { ...policy, lanes: { concurrency: 0, weight: weights["b"] } });
    for (const lane of ["a", "c"]) {
      await this.#broker.setLane({ ...of, lane }, { ...noLaneLimits, weight: weights[lane] });
    }
  }

  async step(): Promise<void> {
    const random = this.#random;
    if (random.next() < 0.5) {
      const lane = random.pick(names);
      const { largest } = this.#share(lane);
      const tasks = Array.from({ length: 1 + random.int(12) }, () => {
        return create(this.#broker, { lane, cost: 1 + random.int(largest) }).done;
      });
      await Promise.all(tasks);
    } else await claim(this.#broker, { count: 1 + random.int(8) });
  }

  observe({ before, after, because }: Change): void {
    const task = (after ?? before) as Task;
    const name = laneOf(task);
    const share = this.#share(name);
    if (because === "created") share.ready += 1;
    if (because !== "claimed") return;
    const hadTasks = names.filter((each) => this.#share(each).ready > 0);
    share.ready -= 1;
    share.served += costOf(task) / (weights[name] ?? 1);
    for (const one of names) {
      for (const other of names) if (one < other) this.#compare(one, other, hadTasks);
    }
  }

  #compare(one: string, other: string, hadTasks: readonly string[]): void {
    const [first, second] = [this.#share(one), this.#share(other)];
    const apart = first.served - second.served;
    const key = `${one} ${other}`;
    const known = this.#between.get(key);
    const hadBoth = hadTasks.includes(one) && hadTasks.includes(other);
    if (known === undefined || !hadBoth) {
      this.#between.set(key, { least: apart, most: apart });
      return;
    }
    known.least = Math.min(known.least, apart);
    known.most = Math.max(known.most, apart);
    const most = first.largest / (weights[one] ?? 1) + second.largest / (weights[other] ?? 1);
    if (known.most - known.least > most + rounding) {
      this.finding ??= `"${one}" and "${other}" are ${known.most - known.least} apart, not ${most}`;
    }
  }

  #share(name: string): Share {
    return this.#shares.get(name) as Share;
  }
}
