/** Finding tasks and repairing dead letters from the command line. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type CliServer, jsonLines, setup } from "./setup.ts";

/** Makes a dead letter and gives its id. */
async function bury(world: ReturnType<CliServer["world"]>, ...more: string[]): Promise<string> {
  const created = await world.run("enqueue", "mail", ...more, "--max-attempts", "1", "--json");
  assert.equal(created.code, 0, created.errors);
  const failing = ["--", "sh", "-c", 'echo "no such host" >&2; exit 1'];
  await world.run("work", "mail", "--max", "1", ...failing);
  return JSON.parse(created.output).id;
}

test("dead letters are listed, shown by a short id, replayed and done", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const id = await bury(cli, '{"to":"ada"}');
  const short = id.slice(-8);
  const listed = await cli.run("dlq", "list");
  assert.match(listed.output, /^ID +COMMAND +PLACE +ATTEMPTS +CREATED +ERROR\n/);
  assert.match(listed.output, new RegExp(`${short} +mail +dead +1/1 .*no such host`));
  const shown = await cli.run("dlq", "show", short);
  assert.match(shown.output, new RegExp(`id +${id}\n`));
  assert.match(shown.output, /error +exit code 1: no such host\n/);
  assert.match(shown.output, /"to": "ada"/);
  assert.match((await cli.run("get", short)).output, new RegExp(`id +${id}\n`));
  const replayed = await cli.run("dlq", "replay", short);
  assert.equal(replayed.output, "replayed 1 failure\n");
  assert.match((await cli.run("get", short)).output, /status +PENDING \(ready\)\n/);
  assert.match((await cli.run("get", short)).output, /replays +1\n/);
  await cli.run("work", "mail", "--max", "1", "--", "cat");
  assert.equal((await cli.run("result", short)).output, '{"to":"ada"}\n');
});

test("tasks that their worker ended as failed are listed, grouped and replayed like dead letters", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  await cli.run("enqueue", "mail", "--json");
  await cli.run("work", "mail", "--max", "1", "--", "sh", "-c", "echo bounced >&2; exit 65");
  assert.match((await cli.run("dlq", "list", "mail")).output, / mail +failed +\d\/5 .*bounced/);
  const { groups } = JSON.parse((await cli.run("dlq", "groups", "--json")).output);
  const [{ id, count, dlq }] = groups;
  assert.deepEqual([groups.length, count, dlq], [1, 1, 0]);
  const { output } = await cli.run("dlq", "replay", "--group", id);
  assert.equal(output, "replayed 1 failure\n");
  assert.equal((await cli.run("dlq", "list")).output, "no tasks match\n");
});

test("dead letters are replayed by a filter, and purged when that is confirmed", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  for (const to of ["ada", "bob"]) await bury(cli, JSON.stringify({ to }));
  const dry = await cli.run("dlq", "replay", "--payload", "to:bob", "--dry-run");
  assert.equal(dry.output, "1 failure would be replayed\n");
  const one = await cli.run("dlq", "replay", "--command", "mail", "--limit", "1");
  assert.equal(
    one.output,
    "replayed 1 failure\nthere are more; codeq jobs start replay changes all of them as one job, with a total\n",
  );
  const unconfirmed = await cli.run("dlq", "purge", "mail");
  assert.equal(unconfirmed.code, 2);
  assert.match(unconfirmed.errors, /codeq dlq purge mail --yes/);
  const purged = await cli.run("dlq", "purge", "mail", "--yes", "--json");
  assert.deepEqual(JSON.parse(purged.output), {
    deleted: 1,
    matched: 1,
    failed: [],
    hasMore: false,
  });
  assert.equal((await cli.run("dlq", "list")).output, "no tasks match\n");
});

test("what does not fit is refused, and nothing is deleted", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const id = await bury(cli);
  for (const args of [[], ["--all", "--command", "mail"], [id, "--all"]]) {
    const refused = await cli.run("dlq", "delete", ...args);
    assert.equal(refused.code, 2, refused.errors);
    assert.match(refused.errors, /pass ids, a filter/);
  }
  const unknown = await cli.run("dlq", "show", "ffffffff");
  assert.equal(unknown.code, 8);
  const waiting = JSON.parse((await cli.run("enqueue", "mail", "--json")).output).id;
  const partly = await cli.run("dlq", "delete", waiting, "ffffffff");
  assert.equal(partly.code, 11);
  assert.match(partly.output, /^deleted 0 failures\n/);
  assert.match(partly.output, new RegExp(`${waiting} was skipped: not_failed\n`));
  assert.match(partly.output, /ffffffff was skipped: not_found\n/);
  const ambiguous = await cli.run("get", id.slice(0, 5));
  assert.equal(ambiguous.code, 11);
  assert.match(ambiguous.errors, /several tasks match/);
});

test("a queue is paused, seen to be paused, and resumed", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  await cli.run("enqueue", "mail");
  const paused = await cli.run("pause", "mail", "--reason", "the provider is down");
  assert.equal(paused.output, "paused mail; resume it with codeq resume mail\n", paused.errors);
  const line = /^mail is paused by \S+ since \S+: the provider is down$/m;
  assert.equal((await cli.run("queues", "--names")).output, "mail\n");
  for (const args of [["queues"], ["queues", "mail"]]) {
    assert.match((await cli.run(...args)).output, line);
  }
  await cli.run("pause", "empty");
  const { queues } = JSON.parse((await cli.run("queues", "--json")).output);
  assert.deepEqual(
    queues.map(({ command, ready }: { command: string; ready: number }) => [command, ready]),
    [
      ["empty", 0],
      ["mail", 1],
    ],
  );
  assert.equal((await cli.run("resume", "mail")).output, "resumed mail\n");
  assert.doesNotMatch((await cli.run("queues")).output, line);
  assert.equal((await cli.run("work", "mail", "--max", "1", "--", "cat")).code, 0);
});

test("a task is cancelled by a short id, whether it waits or runs", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const id = JSON.parse((await cli.run("enqueue", "mail", "--json")).output).id;
  const cancelled = await cli.run("cancel", id.slice(-8));
  assert.equal(cancelled.output, `cancelled ${id}\n`, cancelled.errors);
  const result = await cli.run("tasks", "--place", "cancelled", "--json");
  assert.equal(JSON.parse(result.output).error, "CANCELLED");
  const again = await cli.run("cancel", id);
  assert.equal(again.code, 11);
  assert.match(again.errors, /the task has already ended/);
});

test("tasks are listed by place, queue and text, in either order", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const ids: string[] = [];
  for (const n of [1, 2, 3]) {
    const created = await cli.run("enqueue", n === 2 ? "other" : "mail", `{"n":${n}}`, "--json");
    ids.push(JSON.parse(created.output).id);
  }
  const idsIn = async (...args: string[]): Promise<unknown[]> => {
    const { code, output, errors } = await cli.run("tasks", ...args, "--json");
    assert.equal(code, 0, errors);
    return jsonLines(output).map(({ id }) => id);
  };
  assert.deepEqual(await idsIn(), ids.toReversed());
  assert.deepEqual(await idsIn("mail", "--oldest"), [ids[0], ids[2]]);
  assert.deepEqual(await idsIn("--payload", "n:2", "--place", "ready"), [ids[1]]);
  assert.deepEqual(await idsIn("--place", "dead"), []);
  const cut = await cli.run("tasks", "--limit", "1", "--place", "ready");
  assert.match(cut.output, new RegExp(`^ID .*\n${ids[2]?.slice(-8)} +mail +ready +0/5 `));
  assert.equal(cut.errors, "showing the first 1 of 3; use --limit to show more\n");
});

test("a task that waits is moved, put off, run now, and given another priority and payload", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const made = ["enqueue", "mail", '{"n":1}', "--tag", "vip", "--tag", "eu", "--delay", "1h"];
  made.push("--ttl", "90s", "--execution-timeout", "1m");
  const id = JSON.parse((await cli.run(...made, "--json")).output).id;
  const short = id.slice(-8);
  const shown = (await cli.run("get", short)).output;
  for (const line of [/^tags +vip, eu$/m, /^start by +\d{4}-/m, /^timeout +60 s an attempt$/m]) {
    assert.match(shown, line);
  }
  const edits: readonly (readonly [string[], string])[] = [
    [["move", short, "post"], "delayed until \\S+ in post, priority 0"],
    [["reschedule", short, "--delay", "2h"], "delayed until \\S+ in post, priority 0"],
    [["set-priority", short, "7"], "delayed until \\S+ in post, priority 7"],
    [["edit", short, '{"n":12345678901234567890}'], "delayed until \\S+ in post, priority 7"],
    [["run-now", short], "ready in post, priority 7"],
  ];
  for (const [args, said] of edits) {
    const { output, errors } = await cli.run(...args);
    assert.match(output, new RegExp(`^${id} is ${said}\n$`), errors);
  }
  const found = await cli.run("tasks", "--tag", "vip,eu", "--json");
  assert.equal(JSON.parse(found.output).payload, '{"n":12345678901234567890}');
  assert.equal((await cli.run("tasks", "--tag", "other")).output, "no tasks match\n");
  assert.equal((await cli.run("reschedule", short)).code, 2);
  assert.equal((await cli.run("set-priority", short, "12")).code, 2);
  await cli.run("work", "post", "--max", "1", "--", "cat");
  const refused = await cli.run("run-now", short);
  assert.equal(refused.code, 11);
  assert.match(refused.errors, /the task is not waiting: a worker holds it, or it has ended/);
});

test("failure groups with long errors in long queues fit a terminal", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const queue = "mail.".padEnd(100, "x");
  await cli.run("enqueue", queue, "--max-attempts", "1");
  const failing = ["--", "sh", "-c", `echo "no such host ${"y".repeat(200)}" >&2; exit 1`];
  await cli.run("work", queue, "--max", "1", ...failing);
  const terminal = world({ isTerminal: true, columns: 100, env: { NO_COLOR: "1" } });
  const { output } = await terminal.run("dlq", "groups");
  const [head = "", group = ""] = output.split("\n");
  assert.match(head, /ERROR/);
  assert.match(group, /no such ho.*…$/);
  assert.ok(group.length <= 100, output);
});

test("failures are grouped, and one is tried again with another payload", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const id = await bury(cli);
  const groups = await cli.run("dlq", "groups");
  assert.match(groups.output, /^GROUP +COUNT +DEAD +STATE +LAST +QUEUES +ERROR\n/);
  const [, group] =
    /^([0-9a-f]{12}) +1 +1 .* mail +exit code <n>: no such host$/m.exec(groups.output) ?? [];
  assert.ok(group !== undefined, groups.output);
  const snoozed = await cli.run("dlq", "triage", group, "snoozed", "--for", "8h");
  assert.equal(snoozed.output, `${group} is snoozed\n`);
  assert.match((await cli.run("dlq", "groups")).output, / snoozed /);
  assert.equal((await cli.run("dlq", "triage", group, "open")).output, `${group} is open again\n`);
  assert.notEqual((await cli.run("dlq", "triage", group, "snoozed")).code, 0);
  const listed = await cli.run("tasks", "--group", group, "--json");
  assert.deepEqual(
    jsonLines(listed.output).map((task) => (task as { id: string }).id),
    [id],
  );
  const edited = await cli.run("dlq", "edit", id, '{"to":"ada"}', "--priority", "3");
  assert.match(edited.output, /^made task [0-9a-f-]{36} of it\n$/, edited.errors);
  const made = await cli.run("get", edited.output.split(" ")[2] ?? "", "--json");
  const { replayOf, payload, priority } = JSON.parse(made.output);
  assert.deepEqual([replayOf, payload, priority], [id, '{"to":"ada"}', 3]);
  assert.equal((await cli.run("dlq", "edit", id)).code, 2);
});

test("a bulk job is only about tasks in the place that was asked for", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  await bury(cli, "{}");
  for (const place of ["done", "dead"]) {
    const dry = await cli.run("jobs", "start", "delete", "mail", "--place", place, "--dry-run");
    const found = place === "dead" ? "1 task" : "0 tasks";
    assert.equal(dry.output, `${found} would be changed\n`, dry.errors);
  }
});

test("dead letters are redriven by a job, which is listed, shown and aborted", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  await bury(cli);
  const dry = await cli.run("dlq", "redrive", "mail", "--dry-run");
  assert.equal(dry.output, "1 task would be changed\n", dry.errors);
  const begun = await cli.run("dlq", "redrive", "mail", "--first", "1");
  const [, id = ""] = /^job (\S+) has begun; /.exec(begun.output) ?? [];
  const watcher = world();
  const watching = watcher.run("jobs", "show", id, "--watch", "--interval", "100ms");
  await watcher.printed("waits for 1 of 1 replayed tasks");
  assert.match(
    (await cli.run("jobs", "list")).output,
    new RegExp(`${id} +replay +running +1 +1 +0 +`),
  );
  assert.match((await cli.run("jobs", "pause", id)).output, /^replay is paused: 1 of 1/);
  assert.match((await cli.run("jobs", "abort", id)).output, /^replay is aborted/);
  assert.equal((await watching).code, 0);
  assert.equal((await cli.run("jobs", "resume", id)).code, 11);
  assert.equal((await cli.run("jobs", "start", "delete")).code, 2);
  assert.equal((await cli.run("jobs", "start", "move", "mail")).code, 2);
  assert.equal((await cli.run("jobs", "start", "delete", "mail", "--to", "post")).code, 2);
  assert.equal((await cli.run("jobs", "start", "move", "mail", "--to", "post")).code, 0);
  assert.match((await cli.run("jobs", "list")).output, / move to post +(running|done) /);
  assert.equal((await cli.run("jobs", "start", "delete", "mail", "--place", "dead")).code, 0);
  assert.equal((await cli.run("jobs", "show", "unknown")).code, 8);
});

test("why a task does not run, why a worker gets nothing, and who had the task before", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const id = await bury(cli, '{"to":"ada"}');
  assert.match(
    (await cli.run("get", id)).output,
    /^attempts\n {2}1\. \S+ \S+ nacked: exit code 1: no such host$/m,
  );
  await cli.run("dlq", "replay", id);
  await cli.run("pause", "mail", "--reason", "repairs");
  const why = await cli.run("why", id.slice(-8));
  assert.match(
    why.output,
    new RegExp(`^${id} is ready in mail: \\S+ paused its queue at \\S+: repairs\n`),
  );
  assert.match(why.output, /^ {2}ahead {5}0 \(0 of a higher priority\)$/m);
  assert.match(why.output, /^ {2}queue {5}1 ready, 0 delayed, 0 in progress/m);
  assert.equal(JSON.parse((await cli.run("why", id, "--json")).output).rule, "paused");
  assert.equal((await cli.run("why")).code, 2);
  assert.equal((await cli.run("why", "--worker-id", "nobody")).code, 8);
});
