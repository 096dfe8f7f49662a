import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterWorld, type SimNode } from "../../test/cluster-world.ts";

async function leaderOf(world: ClusterWorld, besides?: SimNode): Promise<SimNode> {
  for (let turns = 0; turns < 1000; turns += 1) {
    const leader = world.leaderOf(0);
    if (leader !== undefined && leader !== besides) return leader;
    await world.clock.advance(100);
  }
  throw new Error("nobody else leads");
}

test("a leader whose disk is full hands over to a node that has room", async () => {
  const world = new ClusterWorld({ seed: 1, trouble: 0 });
  const first = await leaderOf(world);
  const [second, third] = world.nodes.filter((node) => node !== first) as [SimNode, SimNode];
  first.isDiskFull = true;
  second.isDiskFull = true;
  assert.equal(await leaderOf(world, first), third);
  await world.clock.advance(10_000);
  assert.equal(await leaderOf(world), third, "it stays there");
});

test("a leader whose disk is full goes on when no other node has room", async () => {
  const world = new ClusterWorld({ seed: 1, trouble: 0 });
  const leader = await leaderOf(world);
  const { epoch } = leader.shards[0]?.status ?? assert.fail();
  for (const node of world.nodes) node.isDiskFull = true;
  await world.clock.advance(10_000);
  assert.equal(await leaderOf(world), leader);
  assert.equal(leader.shards[0]?.status.epoch, epoch);
});
