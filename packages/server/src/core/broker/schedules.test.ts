/** What the schedules of one tenant may keep in memory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { limits } from "@codeq/protocol";
import {
  acme,
  BrokerWorld,
  claim,
  owned,
  submit,
  success,
  umbrella,
} from "../../../test/broker-world.ts";
import type { ScheduleOptions } from "../records/schedule-record.ts";

const everySecond: ScheduleOptions = {
  ...{ command: "work", payload: "{}", priority: 0, webhook: "", maxAttempts: 3, tags: [] },
  ...{ timeoutSeconds: 0, ttlSeconds: 0, lane: "", cost: 1, unique: undefined },
  ...{ cron: "", every: "1s", offset: "", tz: "UTC", except: [] },
  ...{ fromMs: undefined, untilMs: undefined, times: 0, pauseAfterFailures: 0, graceSeconds: 30 },
  ...{ overlap: "allow", catchUp: "all", within: "", spread: "" },
};

test("the tasks of a tenant's schedules that have not ended have a limit, also after a restart", async () => {
  const world = new BrokerWorld();
  const first = await world.open();
  const schedules = 20;
  for (let n = 0; n < schedules; n++) {
    await first.schedules.put({ tenantId: acme, id: `s${n}` }, everySecond, undefined);
  }
  const perRound = 1000;
  const rounds = limits.scheduledLiveMax / (schedules * perRound);
  for (let round = 0; round < rounds; round++) {
    await world.clock.advance(perRound * 1000);
    await first.schedules.fireDue(schedules);
  }
  const broker = await world.kill();
  await broker.schedules.put({ tenantId: umbrella, id: "other" }, everySecond, undefined);
  await world.clock.advance(1000);
  await broker.schedules.fireDue(schedules + 1);
  const ran = await broker.schedules.run({ tenantId: acme, id: "s0" });
  assert.equal(ran.ok ? "" : ran.code, "schedule_busy");
  const quotaOf = (tenantId = acme, id = "s0"): number | undefined =>
    broker.schedules.get({ tenantId, id })?.skipped.quota;
  assert.equal(quotaOf(), 1);
  assert.equal(quotaOf(umbrella, "other"), 0);
  const [claimed] = await claim(broker, { commands: ["work"] });
  await submit(broker, owned(claimed!.task), success).done;
  await world.clock.advance(1000);
  await broker.schedules.fireDue(schedules + 1);
  const skipped = Array.from({ length: schedules }, (_, n) => quotaOf(acme, `s${n}`) ?? 0);
  assert.equal(skipped.filter((count) => count === 1).length, 1, "one task had room");
  await broker.schedules.delete({ tenantId: acme, id: "s1" });
  await world.clock.advance(1000);
  await broker.schedules.fireDue(schedules);
  assert.equal(quotaOf(), skipped[0]);
});

test("a schedule that replaces many tasks cancels 500 each time, and creates its own when all have ended", async () => {
  const world = new BrokerWorld();
  const { schedules } = await world.open();
  const of = { tenantId: acme, id: "s" };
  await schedules.put(of, { ...everySecond, every: "1d" }, undefined);
  for (let count = 0; count < 700; count++) assert.ok((await schedules.run(of)).ok);
  await schedules.put(of, { ...everySecond, overlap: "replace" }, undefined);
  const live: (number | undefined)[] = [];
  for (let second = 0; second < 3; second++) {
    await world.clock.advance(1000);
    await schedules.fireDue(1);
    await schedules.fireDue(1);
    live.push(schedules.get(of)?.live);
  }
  assert.deepEqual(live, [200, 1, 1]);
});
