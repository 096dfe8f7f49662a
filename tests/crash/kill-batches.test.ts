/** Batches on a server that is killed. `npm run batch-campaign` has more, and clusters. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { etcdBinary } from "../cluster/etcd-binary.ts";
import { campaign, judge, judgeCallback } from "./batch-campaign.ts";

const length = campaignLength({
  short: { batches: 8, members: 150, kills: 3 },
  long: { batches: 40, members: 1000, kills: 20 },
});

test("every callback runs once, after the last end, when the server is killed", async (t) => {
  const { problems, kills, ended } = await campaign(length);
  assert.deepEqual(problems, []);
  assert.ok(kills > 0 && ended > length.batches);
  t.diagnostic(`${kills} kills, ${ended} tasks have ended`);
});

const binary = campaignLength({ short: undefined, long: etcdBinary });
const etcd = binary?.() ?? { missing: "with --long only" };

test("every callback runs once, after the last end, when leaders of a cluster are killed", {
  skip: "missing" in etcd ? etcd.missing : false,
}, async () => {
  const path = "path" in etcd ? etcd.path : "";
  assert.deepEqual((await campaign({ ...length, etcd: path })).problems, []);
});

test("the verdict names every kind of mistake", () => {
  const shown = { id: "b", phase: "sealed", total: 2, pending: 1, succeeded: 2, failed: 0 };
  const member = { taskId: "m1", status: "COMPLETED", result: { of: "m2" } };
  assert.deepEqual(judge(shown, [member], new Set(["m1", "m2", "m3"])), [
    "b: it is sealed",
    "b: 1 members are pending",
    "b: it counts 2 of 3 members",
    "b: 2 members are lost",
    "b: it counts 2 and 0, 1 succeeded",
    "b: a result is not that of its member",
  ]);
  const callback = { batchId: "b", batchEnded: { succeeded: 1, failed: 0 } };
  assert.deepEqual(judgeCallback(callback, shown), [
    "b: the callback runs before 1 members have ended",
  ]);
  assert.deepEqual(judgeCallback(callback, { ...shown, pending: 0 }), [
    "b: the callback was told of other ends",
  ]);
});
