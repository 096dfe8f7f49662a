/** Schedules of one second on a server that is killed. `npm run schedule-campaign` has more, and clusters. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { campaignLength } from "../campaign-length.ts";
import { etcdBinary } from "../cluster/etcd-binary.ts";
import { campaign, judge } from "./schedule-campaign.ts";

const length = campaignLength({
  short: { schedules: 100, seconds: 5, kills: 3 },
  long: { schedules: 1000, seconds: 60, kills: 10 },
});

test("each nominal instant is one task or one counted skip when the server is killed", async (t) => {
  const { problems, instants, kills, fired } = await campaign(length);
  assert.deepEqual(problems, []);
  assert.ok(kills > 0 && fired > 0);
  t.diagnostic(`${kills} kills, ${instants} instants, ${fired} tasks`);
});

const binary = campaignLength({ short: undefined, long: etcdBinary });
const etcd = binary?.() ?? { missing: "with --long only" };

test("each nominal instant is one task or one counted skip when leaders of a cluster are killed", {
  skip: "missing" in etcd ? etcd.missing : false,
}, async () => {
  const path = "path" in etcd ? etcd.path : "";
  assert.deepEqual((await campaign({ ...length, etcd: path })).problems, []);
});

test("the verdict names every kind of mistake", () => {
  const at = (second: number): string => `2026-01-01T00:00:0${second}Z`;
  const shown = {
    id: "s",
    overlap: "skip",
    createdAt: at(0),
    handledAt: at(5),
    fired: 3,
    live: 2,
    skipped: { late: 1 },
  };
  const task = (second: number, createdAt: string) => ({
    at: at(second),
    taskId: `${second}`,
    createdAt,
    status: "PENDING",
  });
  assert.deepEqual(judge(shown, [task(1, at(1)), task(1, at(1)), task(2, at(1)), task(3, at(4))]), [
    "s: an instant has two tasks",
    "s: 4 tasks, 3 are counted",
    "s: of 5 instants 3 fired, 1 skipped",
    "s: a task is early",
    "s: 4 tasks are live, 2 counted",
    "s: 2 tasks overlap",
  ]);
});
