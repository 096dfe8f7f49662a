import { testQueue } from "../../../test/queue-contract.ts";
import {
  channelWay,
  lateWay,
  localWay,
  openBrokerQueue,
  ShardedWorld,
} from "../../../test/queue-worlds.ts";

testQueue("a broker", openBrokerQueue);
testQueue("one shard", (options) => ShardedWorld.open(1, localWay, options));
testQueue("three shards", (options) => ShardedWorld.open(3, localWay, options));
testQueue("three shards behind channels", (options) => ShardedWorld.open(3, channelWay, options));
for (const seed of [1, 2, 3, 4, 5]) {
  testQueue(`three shards whose messages are late, seed ${seed}`, (options) =>
    ShardedWorld.open(3, lateWay, { ...options, seed }),
  );
}
