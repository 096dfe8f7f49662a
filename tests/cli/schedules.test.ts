/** Schedules from the command line. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("a schedule is put, looked at, paused, run, backfilled and deleted", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const said = async (...args: string[]): Promise<string> => {
    const { code, output, errors } = await cli.run(...args);
    assert.equal(code, 0, errors);
    return output;
  };
  const put = ["schedules", "put", "digest", "mail", "--cron", "0 9 * * MON-FRI"];
  put.push("--tz", "Europe/Paris", "--payload", '{"page":1}', "--tag", "nightly", "--tag", "eu");
  put.push("--unique", "ada", "--unique-on", "latest", "--lane", "acme", "--cost", "2");
  put.push("--ttl", "90s", "--from", "2020-01-01T00:00:00Z", "--except", "2030-12-25");
  assert.match(await said(...put), /^digest has version 1; next: \S+/);
  assert.match(await said(...put), /^digest has version 1;/);
  const shown = JSON.parse(await said("schedules", "get", "digest", "--json"));
  assert.deepEqual(
    [shown.tags, shown.ttlSeconds, shown.payload, shown.except],
    [["nightly", "eu"], 90, { page: 1 }, ["2030-12-25"]],
  );
  assert.deepEqual(
    [shown.unique.key, shown.unique.on, shown.lane, shown.cost],
    ["ada", "latest", "acme", 2],
  );
  const listed = await said("schedules", "list", "--prefix", "dig");
  assert.match(
    listed,
    /^SCHEDULE +QUEUE +TIMES .*\ndigest +mail +0 9 \* \* MON-FRI +Europe\/Paris/,
  );
  assert.match(await said("schedules", "pause", "digest", "--reason", "deploy"), /is paused/);
  assert.match(await said("schedules", "list"), / paused /);
  assert.match(await said("schedules", "resume", "digest"), /^digest goes on; next: /);
  const taskId = (await said("schedules", "run", "digest")).trim();
  assert.match(
    await said("schedules", "runs", "digest"),
    new RegExp(`manual +- +PENDING +${taskId}`),
  );
  const found = await said("tasks", "--schedule", "digest", "--json");
  assert.equal(JSON.parse(found).id, taskId);
  assert.equal(await said("tasks", "--schedule", "other"), "no tasks match\n");
  const why = await said("schedules", "why", "digest", "2020-01-06T09:00");
  assert.match(why, /was created after 2020-01-06 09:00 Europe\/Paris/);
  const span = ["--from", "2020-01-06T00:00:00Z", "--until", "2020-01-13T00:00:00Z"];
  const dry = await said("schedules", "backfill", "digest", ...span, "--dry-run");
  assert.equal(dry, "5 tasks would be created\n");
  assert.match(await said("schedules", "backfill", "digest", ...span), /^job \S+ has begun; /);
  assert.match(await said("schedules", "delete", "digest"), /is deleted; its tasks stay/);
  assert.match((await cli.run("schedules", "get", "digest")).errors, /schedule not found/);
});

test("a plan needs no server, and names what changes of the clock do", async (t) => {
  const { world } = await setup(t);
  const plan = ["schedules", "next", "30 2 * * *", "--tz", "Europe/Paris", "--count", "2"];
  const { output } = await world().run(...plan, "--after", "2026-03-28T12:00:00Z");
  assert.match(output, /2026-03-29 03:00 +\+02:00 +2026-03-29T01:00:00Z +clocks are set forward/);
  assert.match(output, /2026-03-30 02:30 +\+02:00/);
  for (const [times, why] of [
    ["0 0 30 2 *", /never fires: no month that it names has such a day; write for example/],
    ["500ms", /the shortest period is 1s/],
  ] as const) {
    const refused = await world().run("schedules", "next", times);
    assert.equal(refused.code, 2);
    assert.match(refused.errors, why);
  }
  const zone = await world().run("schedules", "next", "0 9 * * *", "--tz", "Europe/Pariss");
  assert.match(zone.errors, /is no IANA time zone; write for example/);
});
