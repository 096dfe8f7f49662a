/** How long a shard is without a leader, on a simulated clock and with a log that answers within 12 ms. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryLogServer } from "../../../engine/test/memory-shared-log.ts";
import { create } from "../../test/broker-world.ts";
import { ClusterWorld, type SimNode } from "../../test/cluster-world.ts";
import type { Router } from "../core/shards/router.ts";

const seeds = [1, 2, 3, 4, 5];

interface Gap {
  /** From the event until a node leads the shard that did not lead it before. */
  readonly ms: number;
  readonly next: SimNode;
}

async function gapAfter(
  seed: number,
  event: (leader: SimNode, world: ClusterWorld) => void,
): Promise<Gap> {
  const world = new ClusterWorld({ seed, trouble: 0 });
  const { clock, nodes } = world;
  // A node that has just written asks a server that has the record.
  for (const log of world.logs) log.lag = () => 0;
  const leaderOf = (): SimNode | undefined => {
    return nodes.find((node) => node.shards[0]?.status.role === "leading");
  };
  while (leaderOf() === undefined) await clock.advance(50);
  await clock.advance(3000);
  const leader = leaderOf() as SimNode;
  const before = leader.shards[0]?.status.epoch ?? 0;
  const startMs = clock.monotonicMs();
  event(leader, world);
  for (;;) {
    await clock.advance(5);
    const next = nodes.find(({ shards: [shard], isPaused }) => {
      return !isPaused && shard?.status.role === "leading" && shard.status.epoch > before;
    });
    if (next !== undefined) return { ms: clock.monotonicMs() - startMs, next };
    assert.ok(clock.monotonicMs() - startMs < 60_000, "nobody takes over");
  }
}

async function gapsAfter(
  event: (leader: SimNode, world: ClusterWorld) => void,
): Promise<readonly number[]> {
  const gaps: number[] = [];
  for (const seed of seeds) gaps.push((await gapAfter(seed, event)).ms);
  return gaps;
}

function assertAtMost(gaps: readonly number[], ms: number): void {
  assert.ok(Math.max(...gaps) <= ms, `${gaps.join(", ")} ms`);
}

test("a leader that hands over has another node as its successor within a tenth of a second", async () => {
  for (const seed of seeds) {
    let before: SimNode | undefined;
    const { ms, next } = await gapAfter(seed, (leader) => {
      before = leader;
      leader.shards[0]?.handOff(undefined);
    });
    assertAtMost([ms], 100);
    assert.notEqual(next, before);
  }
});

test("a leader that ends hands over as fast, although it is the first in rank", async () => {
  assertAtMost(await gapsAfter((leader) => void leader.stop()), 100);
});

test("a leader that hands over writes its changes to its slow disk while it still leads", async () => {
  const world = new ClusterWorld({ seed: 1, trouble: 0 });
  const { clock } = world;
  while (world.leaderOf(0) === undefined) await clock.advance(50);
  const leader = world.leaderOf(0) as SimNode;
  for (let number = 0; number < 5; number += 1) create(leader.router as Router);
  await clock.advance(100);
  leader.writeMs = 500;
  const startMs = clock.monotonicMs();
  leader.shards[0]?.handOff(undefined);
  while (world.leaderOf(0) === leader) await clock.advance(5);
  assert.ok(clock.monotonicMs() - startMs >= leader.writeMs, "the changes were written first");
  const endMs = clock.monotonicMs();
  while (world.leaderOf(0) === undefined) await clock.advance(5);
  assert.notEqual(world.leaderOf(0), leader);
  assertAtMost([clock.monotonicMs() - endMs], 100);
});

test("a leader that is killed has a successor within 1.8 seconds", async () => {
  assertAtMost(await gapsAfter((leader) => leader.kill()), 1800);
});

test("a leader that loses the log has a successor within 1.8 seconds", async () => {
  const isolate = (leader: SimNode): void => {
    leader.isWithoutLog = true;
    leader.isCutOff = true;
  };
  assertAtMost(await gapsAfter(isolate), 1800);
});

for (const outageMs of [900, 1500, 2500]) {
  test(`a leader that is lost with the log for ${outageMs} ms has a successor soon after it`, async () => {
    const gaps = await gapsAfter((leader, { nodes, clock }) => {
      leader.kill();
      clock.after(50, () => {
        for (const node of nodes) node.isWithoutLog = true;
      });
      clock.after(outageMs, () => {
        for (const node of nodes) node.isWithoutLog = false;
      });
    });
    // A question that was lost is given up after 300 ms here.
    assertAtMost(gaps, Math.max(1800, outageMs + 900));
  });
}

test("a leader whose last record is kept late has a successor soon after it", async () => {
  const outageMs = 1700;
  const gaps = await gapsAfter((leader, { clock, logs: [log] }) => {
    const server = log as MemoryLogServer;
    let sent: Parameters<MemoryLogServer["append"]> | undefined;
    server.append = (...record) => {
      sent ??= record;
      return { kind: "unknown", why: "the log servers elect a leader" };
    };
    clock.after(400, () => leader.kill());
    clock.after(outageMs, () => {
      server.append = MemoryLogServer.prototype.append;
      if (sent !== undefined) assert.deepEqual(server.append(...sent), { kind: "kept" });
    });
  });
  assertAtMost(gaps, outageMs + 700);
});

test("a leader goes on when the log servers were away for two seconds", async () => {
  for (const seed of seeds) {
    const world = new ClusterWorld({ seed, trouble: 0 });
    const { clock, nodes } = world;
    while (world.leaderOf(0) === undefined) await clock.advance(50);
    await clock.advance(3000);
    const leader = world.leaderOf(0);
    for (const node of nodes) node.isWithoutLog = true;
    await clock.advance(2000);
    for (const node of nodes) node.isWithoutLog = false;
    await clock.advance(2000);
    assert.equal(world.leaderOf(0), leader, `seed ${seed}`);
  }
});

test("a leader hands back to the node that should lead when that was well for a while", async () => {
  const world = new ClusterWorld({ seed: 1, trouble: 0 });
  const { clock, nodes } = world;
  const [first] = nodes as [SimNode];
  while (world.leaderOf(0) === undefined) await clock.advance(50);
  assert.equal(world.leaderOf(0), first);
  first.kill();
  await clock.advance(3000);
  const second = world.leaderOf(0);
  assert.ok(second !== undefined && second !== first);
  await clock.advance(20_000);
  assert.equal(world.leaderOf(0), second, "while the first is away");
  first.start();
  await clock.advance(4000);
  assert.equal(world.leaderOf(0), second, "not at once");
  await clock.advance(8000);
  assert.equal(world.leaderOf(0), first);
});

test("a node that was named as the leader stays the leader", async () => {
  const world = new ClusterWorld({ seed: 1, trouble: 0 });
  const { clock, nodes } = world;
  const [first, second] = nodes as [SimNode, SimNode];
  while (world.leaderOf(0) === undefined) await clock.advance(50);
  first.shards[0]?.handOff(second.name.id);
  await clock.advance(60_000);
  assert.equal(world.leaderOf(0), second);
});

test("a leader does not hand back to a node that is behind, full or has a wrong clock", async () => {
  const troubles: ((first: SimNode) => void)[] = [
    (first) => {
      first.isWithoutLog = true;
    },
    (first) => {
      first.isDiskFull = true;
    },
    (first) => {
      first.clockOffMs = 3_600_000;
    },
  ];
  for (const trouble of troubles) {
    const world = new ClusterWorld({ seed: 1, trouble: 0 });
    const { clock, nodes } = world;
    const [first] = nodes as [SimNode];
    while (world.leaderOf(0) === undefined) await clock.advance(50);
    first.kill();
    await clock.advance(3000);
    const second = world.leaderOf(0);
    first.start();
    trouble(first);
    await clock.advance(30_000);
    assert.equal(world.leaderOf(0), second);
  }
});
