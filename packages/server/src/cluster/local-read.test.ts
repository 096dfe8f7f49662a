import assert from "node:assert/strict";
import { test } from "node:test";
import { acme, create, umbrella } from "../../test/broker-world.ts";
import { ClusterWorld, type SimNode } from "../../test/cluster-world.ts";

async function setup(): Promise<{ world: ClusterWorld; leader: SimNode; follower: SimNode }> {
  const world = new ClusterWorld({ seed: 1, trouble: 0 });
  const find = (): SimNode | undefined => world.leaderOf(0);
  while (find() === undefined) await world.clock.advance(100);
  const leader = find() as SimNode;
  await world.clock.advance(1000);
  const follower = world.nodes.find((node) => node !== leader) as SimNode;
  return { world, leader, follower };
}

test("a follower answers for a task without the leader, and says how far it is", async () => {
  const { world, leader, follower } = await setup();
  const { router } = leader;
  assert.ok(router !== undefined);
  const payload = JSON.stringify({ text: "x".repeat(2000) });
  const made = create(router, { payload });
  await world.clock.advance(1000);
  const { id } = made.answer?.task ?? assert.fail();
  const [shard] = follower.shards;
  const found = shard?.local(acme, id);
  assert.equal(found?.payload, payload, "also when the payload is kept apart from the task");
  assert.equal(found?.task.place.in, "ready");
  assert.equal(found?.appliedIndex, shard?.status.index);
  assert.equal(shard?.local(umbrella, id), undefined, "not for another tenant");
  assert.equal(leader.shards[0]?.local(acme, id), undefined, "the leader is asked as ever");
  follower.isWithoutLog = true;
  const second = create(router, { payload });
  await world.clock.advance(1000);
  const later = second.answer?.task.id ?? assert.fail();
  assert.equal(shard?.local(acme, later), undefined, "it does not know what it has not read");
  assert.equal(shard?.local(acme, id)?.appliedIndex, found?.appliedIndex);
  follower.isWithoutLog = false;
  await world.clock.advance(3000);
  assert.ok((shard?.local(acme, later)?.appliedIndex ?? 0) > (found?.appliedIndex ?? 0));
});
