/** A task that was acknowledged is found or cannot be asked for at the moment; no node ever says that it does not exist. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FaultError } from "@codeq/engine";
import type { TaskId } from "@codeq/queue";
import { acme, create } from "../../test/broker-world.ts";
import { ClusterWorld, type SimNode } from "../../test/cluster-world.ts";
import { shardOf } from "../core/shards/shard-of.ts";

const shards = 3;
const stepMs = 50;

class Clients {
  readonly world: ClusterWorld;
  readonly #keys: Map<string, TaskId> = new Map();
  readonly problems: string[] = [];
  refused = 0;
  found = 0;
  #number = 0;

  constructor(seed: number) {
    this.world = new ClusterWorld({ seed, shards, trouble: 0 });
  }

  async pass(ms: number): Promise<void> {
    const { clock, nodes } = this.world;
    for (let passedMs = 0; passedMs < ms; passedMs += stepMs) {
      for (const node of nodes) this.#create(node);
      for (const node of nodes) this.#lookFrom(node);
      await clock.advance(stepMs);
    }
  }

  /** Every node finds every acknowledged task. */
  async everyNodeFindsAll(): Promise<void> {
    const { clock, nodes } = this.world;
    const asked = nodes.flatMap(({ router }) =>
      [...this.#keys.values()].map((id) => router?.get(acme, id) ?? assert.fail()),
    );
    let found: readonly unknown[] = [];
    void Promise.all(asked).then((all) => {
      found = all;
    });
    await clock.advance(2000);
    assert.equal(found.length, nodes.length * this.#keys.size);
    assert.ok(found.every((each) => each !== undefined));
    const used = new Set([...this.#keys.values()].map((id) => shardOf(id, shards)));
    assert.equal(used.size, shards);
  }

  #create({ router, isPaused }: SimNode): void {
    if (router === undefined || isPaused) return;
    this.#number += 1;
    // Now and then a key again, whose answer is the task that has it.
    const key = `key-${this.#number % 7 === 0 ? this.#number >> 1 : this.#number}`;
    create(router, { idempotencyKey: key }).done.then(
      ({ task }) => {
        const before = this.#keys.get(key) ?? task.id;
        if (before !== task.id) this.problems.push(`${key} is ${before} and ${task.id}`);
        this.#keys.set(key, task.id);
      },
      () => {},
    );
  }

  #lookFrom(node: SimNode): void {
    const { router, isPaused, name } = node;
    if (router === undefined || isPaused) return;
    const newest = [...this.#keys].slice(-3);
    const oldest = [...this.#keys].slice(0, 2);
    for (const [key, id] of [...oldest, ...newest]) {
      const asked: Record<string, Promise<unknown>> = {
        "the task": router.get(acme, id),
        "its result": router.outcome(acme, id),
        "its key": router.entryOf(acme, key),
        "the local copy": local(node, id) ?? router.get(acme, id),
      };
      for (const [what, answer] of Object.entries(asked))
        this.#expect(`${name.id}: ${what} of ${key}`, answer);
    }
  }

  #expect(what: string, answer: Promise<unknown>): void {
    answer.then(
      (found) => {
        this.found += 1;
        if (found === undefined) this.problems.push(`${what} is not found`);
      },
      (error: unknown) => {
        this.refused += 1;
        const code = error instanceof FaultError ? error.code : String(error);
        if (code !== "not_leader" && code !== "unknown") this.problems.push(`${what}: ${code}`);
      },
    );
  }
}

function local({ shards: replicas }: SimNode, id: TaskId): Promise<unknown> | undefined {
  const found = replicas[shardOf(id, shards)]?.local(acme, id);
  return found && Promise.resolve(found);
}

const happenings: Readonly<Record<string, (leader: SimNode, world: ClusterWorld) => () => void>> = {
  "the leader of a shard hands over": (leader) => {
    leader.shards[0]?.handOff(undefined);
    return () => {};
  },
  "a leader is killed": (leader) => {
    leader.kill();
    return () => leader.start();
  },
  "a leader is killed and loses its disk": (leader) => {
    leader.kill(true);
    return () => leader.start();
  },
  "a leader hangs": (leader) => {
    leader.pause();
    return () => leader.goOn();
  },
  "a leader is cut off from the log": (leader) => {
    leader.isWithoutLog = true;
    return () => {
      leader.isWithoutLog = false;
    };
  },
  "a leader is cut off from the other nodes": (leader) => {
    leader.isCutOff = true;
    return () => {
      leader.isCutOff = false;
    };
  },
  "a leader is isolated": (leader) => {
    leader.isWithoutLog = true;
    leader.isCutOff = true;
    return () => {
      leader.isWithoutLog = false;
      leader.isCutOff = false;
    };
  },
  "a follower does not read the log": (leader, { nodes }) => {
    const [follower] = nodes.filter((node) => node !== leader) as [SimNode];
    follower.isWithoutLog = true;
    return () => {
      follower.isWithoutLog = false;
    };
  },
  "the log servers are gone": (_, { nodes }) => {
    for (const node of nodes) node.isWithoutLog = true;
    return () => {
      for (const node of nodes) node.isWithoutLog = false;
    };
  },
  "the disk of a leader is full": (leader) => {
    leader.isDiskFull = true;
    return () => {
      leader.isDiskFull = false;
    };
  },
};

for (const [at, [what, happen]] of Object.entries(happenings).entries()) {
  test(`no node says that an acknowledged task does not exist when ${what}`, async () => {
    const clients = new Clients(at);
    const { world } = clients;
    while (![0, 1, 2].every((shard) => world.leaderOf(shard))) await world.clock.advance(100);
    await clients.pass(400);
    const heal = happen(world.leaderOf(0) as SimNode, world);
    await clients.pass(4000);
    heal();
    await clients.pass(2000);
    await world.clock.advance(20_000);
    assert.deepEqual(clients.problems.slice(0, 5), []);
    assert.ok(clients.found > 500, String(clients.found));
    await clients.everyNodeFindsAll();
  });
}
