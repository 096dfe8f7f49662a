/** Finding tasks and acting on them: every click is checked through the API. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import test from "node:test";
import { setup } from "./setup.ts";

test("dead letters are found, selected and replayed together", async (t) => {
  const { page, open, api } = await setup(t);
  for (const reason of ["SmtpError: 421 from 203.0.113.7", "SmtpError: 450 from 203.0.113.9"]) {
    await api.createDead("send-email", reason);
  }
  await api.createDead("render", "PdfError: no fonts");
  await open("/ui/tasks");
  const field = page.getByRole("combobox", { name: "Filter tasks" });
  await field.fill("st");
  await page.keyboard.press("Tab");
  await page.keyboard.type("dead");
  await page.keyboard.press("Enter");
  await field.fill("queue:send-email");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  assert.equal(new URL(page.url()).searchParams.get("q"), "state:dead queue:send-email");
  await page.getByText("2 matching").waitFor();
  await page.getByLabel("Select all rows that are loaded").check();
  await page.getByRole("button", { name: "Select all 2 matching" }).click();
  await page.getByRole("button", { name: "Replay…" }).click();
  await page.getByRole("button", { name: "Replay 2 tasks" }).click();
  await page.getByText("2 of 2 tasks: done").waitFor();
  const { ready, dlq } = await api.ask("/admin/queues/send-email");
  assert.deepEqual([ready, dlq], [2, 0]);
  assert.equal((await api.ask("/admin/queues/render")).dlq, 1);
});

test("deleting and cancelling all that match ask to type the queue first; moving says how many", async (t) => {
  const { page, open, api } = await setup(t);
  await api.createDead("send-email", "SmtpError");
  await open("/ui/tasks?q=state%3Adead+queue%3Asend-email");
  await page.getByLabel("Select all rows that are loaded").check();
  await page.getByRole("button", { name: "Select all 1 matching" }).click();
  await page.getByRole("button", { name: "Delete…" }).click();
  const button = page.getByRole("button", { name: "Delete 1 task" });
  await button.waitFor();
  assert.ok(await button.isDisabled());
  await page.getByLabel("Type send-email to confirm").fill("send-mail");
  assert.ok(await button.isDisabled());
  await page.getByLabel("Type send-email to confirm").fill("send-email");
  await button.click();
  await page.getByText("1 of 1 task: done").waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).dlq, 0);
  for (let n = 0; n < 3; n += 1) await api.create("send-email", { delaySeconds: 3600 });
  await api.create("render", { delaySeconds: 3600 });
  await open("/ui/tasks?q=state%3Adelayed+queue%3Asend-email");
  await page.getByLabel("Select all rows that are loaded").check();
  await page.getByRole("button", { name: "Select all 3 matching" }).click();
  await page.getByRole("button", { name: "Move…" }).click();
  await page.getByLabel("To queue").fill("newsletter");
  await page.getByRole("button", { name: "Move 3 tasks" }).click();
  await page.getByRole("heading", { name: "Bulk jobs" }).waitFor();
  await page.getByText("3 of 3").waitFor();
  assert.equal((await api.ask("/admin/queues/newsletter")).delayed, 3);
  await page.getByText("to newsletter").waitFor();
  await open("/ui/queues/newsletter");
  await page.getByRole("button", { name: "Cancel all tasks…" }).click();
  await page.getByLabel("Type newsletter to confirm").fill("newsletter");
  await page.getByRole("button", { name: "Cancel 3 tasks" }).click();
  await page.getByText("3 of 3").nth(1).waitFor();
  assert.equal((await api.ask("/admin/queues/newsletter")).delayed, 0);
  assert.equal((await api.ask("/admin/queues/render")).delayed, 1);
});

test("new tasks are counted, and rows do not move until somebody asks for them", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await open("/ui/tasks");
  await page.getByText("1 row loaded").waitFor();
  await api.create("render");
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByText("2 rows loaded").waitFor();
});

test("what matches is exported as a table and as JSON", async (t) => {
  const { page, open, api } = await setup(t);
  await api.createDead("send-email", '=HYPERLINK("http://attacker.example")');
  await open("/ui/tasks?q=state%3Adead");
  const save = async (kind: string): Promise<string> => {
    await page.getByText("Export", { exact: true }).click();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: kind }).click(),
    ]);
    return await readFile(await file.path(), "utf8");
  };
  const csv = await save("CSV");
  assert.match(csv, /^id,queue,state,/);
  assert.ok(csv.includes(`"'=HYPERLINK(""http://attacker.example"")"`), csv);
  const [task] = JSON.parse(await save("JSON"));
  assert.equal(task.command, "send-email");
});

test("a waiting task is edited, moved, run now and cancelled", async (t) => {
  const { page, open, api } = await setup(t);
  const id = await api.create("send-email", { delaySeconds: 3600 });
  const task = async (): Promise<{
    place: string;
    payload: string;
    command: string;
    error: string;
  }> => (await api.ask(`/admin/tasks/${id}`)).task;
  await open(`/ui/tasks/${id}`);
  await page.getByRole("button", { name: "Edit payload" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Payload").fill('{"id": 9007199254740993}');
  await dialog.getByRole("button", { name: "Save payload" }).click();
  await page.getByText("9007199254740993").waitFor();
  assert.equal((await task()).payload, '{"id": 9007199254740993}');
  await page.getByText("exact", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Move…" }).click();
  await dialog.getByLabel("To queue; empty to stay").fill("render");
  await dialog.getByRole("button", { name: "Move task" }).click();
  await page.getByRole("heading", { name: "render" }).waitFor();
  assert.equal((await task()).command, "render");
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByText("is ready to run").waitFor();
  assert.equal((await task()).place, "ready");
  await page.getByRole("button", { name: "Clone" }).click();
  await page.getByRole("heading", { name: "Enqueue" }).waitFor();
  assert.equal(await page.getByLabel("Payload").inputValue(), '{"id": 9007199254740993}');
  await page.goBack();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await dialog.getByRole("button", { name: "Cancel task" }).click();
  await page.locator(".task-title").getByText("Cancelled", { exact: true }).waitFor();
  assert.equal((await task()).error, "CANCELLED");
});

test("a dead letter is replayed, edited into a new task, and deleted", async (t) => {
  const { page, open, api, complaints } = await setup(t);
  const id = await api.createDead("send-email", "SmtpError: 421");
  await open(`/ui/tasks/${id}`);
  await page.getByRole("button", { name: "Edit and replay" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Payload").fill('{"n": }');
  await dialog.getByText("Not valid JSON").waitFor();
  assert.ok(await dialog.getByRole("button", { name: "Replay as a new task" }).isDisabled());
  await dialog.getByLabel("Payload").fill('{"n": 1.50}');
  await dialog.getByRole("button", { name: "Replay as a new task" }).click();
  await page.getByRole("link", { name: "Open it" }).click();
  await page.getByText("1.50").waitFor();
  await page.getByText("Replay of").waitFor();
  await page.goBack();
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  await page.locator(".task-title").getByText("Ready", { exact: true }).waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).ready, 2);
  const other = await api.createDead("render", "PdfError");
  await open(`/ui/tasks/${other}`);
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByLabel("Type render to confirm").fill("render");
  assert.deepEqual(complaints(), []);
  await page.getByRole("button", { name: "Delete task" }).click();
  await page.getByText(/^Deleted /).waitFor();
  assert.deepEqual((await api.ask("/admin/tasks?command=render")).tasks, []);
  // The page follows its task, so it may ask for the deleted task once more before the browser leaves it.
  const others = complaints().filter((text) => !text.includes("404 (Not Found)"));
  assert.deepEqual(others, []);
});

test("failures with the same cause are one group, are replayed as one, resolved and snoozed", async (t) => {
  const { page, open, api } = await setup(t);
  for (const n of [7, 8, 9])
    await api.createDead("send-email", `SmtpError: 421 from 203.0.113.${n}`);
  await api.createDead("render", "PdfError: no fonts");
  await open("/ui/failures");
  await page.getByText("4 failures in 2 groups").waitFor();
  await page.getByRole("button", { name: "Replay…" }).click();
  await page.getByRole("button", { name: "Replay 3 tasks" }).click();
  await page.getByText("3 of 3 tasks: done").waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).ready, 3);
  assert.equal((await api.ask("/admin/queues/render")).dlq, 1);
  await open("/ui/failures");
  await page.getByText("1 failure in 1 group").waitFor();
  await page.getByRole("img", { name: "1 failure in the last 24 hours" }).waitFor();
  await page.getByRole("button", { name: "Resolve" }).click();
  await page.getByLabel("Reason, shown to everyone").fill("relay is back");
  await page.getByRole("button", { name: "Resolve group" }).click();
  await page.getByText("No open failures").waitFor();
  const [group] = (await api.ask("/admin/failure-groups")).groups;
  assert.deepEqual([group.state, group.triage.reason], ["resolved", "relay is back"]);
  await page.getByRole("link", { name: "Resolved 1" }).click();
  await page.getByText("relay is back").waitFor();
  await api.createDead("render", "PdfError: no fonts");
  await page.getByRole("link", { name: "Open 1" }).click();
  await page.getByText("Failed again after it was resolved").waitFor();
  await page.getByRole("button", { name: "Snooze…" }).click();
  await page.getByRole("button", { name: "7 days" }).click();
  await page.getByRole("button", { name: "Snooze group" }).click();
  await page.getByRole("link", { name: "Snoozed 1" }).waitFor();
  assert.equal((await api.ask("/admin/failure-groups")).groups[0].state, "snoozed");
});

test("a group of failures is replayed as a canary, which is a bulk job", async (t) => {
  const { page, open, api } = await setup(t);
  for (const n of [7, 8, 9])
    await api.createDead("send-email", `SmtpError: 421 from 203.0.113.${n}`);
  await open("/ui/failures");
  await page.getByRole("button", { name: "Replay as a canary…" }).click();
  await page.getByLabel("Tasks in the first step").fill("2");
  await page.getByRole("button", { name: "Replay the first 2" }).click();
  await page.getByRole("heading", { name: "Bulk jobs" }).waitFor();
  await page.getByText("Canary replay").waitFor();
  await page.getByText("Step of 2 tasks").waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).ready, 2);
  await page.getByRole("button", { name: "Abort" }).click();
  await page.getByText("Aborted the job").waitFor();
  const { jobs } = await api.ask("/admin/jobs");
  assert.equal(jobs[0].state, "aborted");
});

test("a task says why it does not run, and what became of each attempt", async (t) => {
  const { page, open, api } = await setup(t);
  const id = await api.create("send-email");
  await open(`/ui/tasks/${id}`);
  await page.getByRole("heading", { name: "Why is it not running?" }).waitFor();
  await page.getByText("0 workers connected").waitFor();
  await api.ask("/admin/queues/send-email/pause", { reason: "mail relay is down" });
  await page.getByText("Paused by static").first().waitFor();
  await page.getByText("mail relay is down").first().waitFor();
  await api.ask("/admin/queues/send-email/resume", {});
  const { leaseToken } = await api.ask("/tasks/claim", { commands: ["send-email"] });
  await page.getByRole("heading", { name: "What is it doing?" }).waitFor();
  const stack = "    at send (mail.ts:3:7)\ncaused by: Error: no route";
  await api.ask(`/tasks/${id}/nack`, { reason: "SmtpError: 421\nbusy", stack, delaySeconds: 60 });
  await page.getByText(`lease token ${leaseToken}`).waitFor();
  await page.getByText("retry in 1 m").waitFor();
  await page.getByText("Stack", { exact: true }).click();
  await page
    .getByText(/at send \(mail\.ts:3:7\)\s+caused by/)
    .first()
    .waitFor();
  await page.getByRole("tab", { name: /^Error/ }).click();
  await page.getByRole("tabpanel").getByText("caused by: Error: no route").waitFor();
  await api.create("resize");
  await api.ask("/tasks/claim", { commands: ["resize"] });
  await open("/ui/workers");
  await page.getByRole("button", { name: "Why does static get no tasks?" }).click();
  await page.getByText(/no claim of it waits for tasks/).waitFor();
  await page.keyboard.press("Escape");
  await api.put("/admin/topics/render", { priorityTiers: [0], maxAttempts: 3, maxConsumers: 1 });
  const slow = await api.create("render", { timeoutSeconds: 1, maxAttempts: 1 });
  await api.ask("/tasks/claim", { commands: ["render"] });
  await open(`/ui/tasks/${slow}`);
  await page.getByText("Timed out").waitFor();
  await api.create("render");
  await api.ask("/tasks/claim", { commands: ["render"] });
  await open(`/ui/tasks/${await api.create("render")}`);
  await page.getByText("The topic of the queue allows no more leases").waitFor();
});

test("progress, log and the result of a running task appear by themselves", async (t) => {
  const { page, open, api } = await setup(t);
  const id = await api.create("render");
  await api.ask("/tasks/claim", { commands: ["render"] });
  await open(`/ui/tasks/${id}`);
  await page.getByRole("heading", { name: "What is it doing?" }).waitFor();
  const say = (percent: number, text: string, line: string): Promise<unknown> =>
    api.ask(`/tasks/${id}/heartbeat`, { progress: { percent, text }, logs: [line] });
  await say(10, "page 1 of 10", "fonts loaded <b>");
  await page.getByText("page 1 of 10").waitFor();
  await page.getByRole("log").getByText("fonts loaded <b>").waitFor();
  // Reports that follow too soon are dropped, so a worker says it again.
  const almost = page.getByText("80%");
  for (let times = 0; times < 1000 && !(await almost.isVisible()); times++) {
    await say(80, "page 8 of 10", "almost");
  }
  await almost.waitFor();
  await api.ask(`/tasks/${id}/result`, { status: "COMPLETED", result: { pages: 10 } });
  await page.getByRole("heading", { name: "What came of it?" }).waitFor();
  await page.getByRole("tab", { name: "Result" }).click();
  await page.getByText("pages").waitFor();
});

test("files of a result are downloaded, and its webhook is sent again", async (t) => {
  const env = { CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true" };
  const { page, open, api, server } = await setup(t, { env });
  const posts: string[] = [];
  const receiver = createServer((request, response) => {
    posts.push(request.method ?? "");
    response.writeHead(posts.length === 1 ? 204 : 200).end();
  }).listen(0, "127.0.0.1");
  t.after(() => receiver.close());
  await once(receiver, "listening");
  const { port } = receiver.address() as AddressInfo;
  const id = await api.create("render", { webhook: `http://127.0.0.1:${port}/done` });
  await api.ask("/tasks/claim", { commands: ["render"] });
  await fetch(`${server.url}/v1/codeq/tasks/${id}/artifacts/report.txt`, {
    method: "PUT",
    headers: { authorization: "Bearer dev-token", "content-type": "text/plain" },
    body: "ten pages",
  });
  await api.ask(`/tasks/${id}/result`, { status: "COMPLETED", result: { pages: 10 } });
  await open(`/ui/tasks/${id}`);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download report.txt" }).click(),
  ]);
  assert.equal(await readFile(await file.path(), "utf8"), "ten pages");
  await page.getByText("Answered 204").waitFor();
  await page.getByRole("button", { name: "Send again" }).click();
  await page.getByText("Answered 200").waitFor();
  assert.equal(posts.length, 2);
});

test("subscriptions, topics and the secrets that sign webhooks are created, changed and deleted", async (t) => {
  const { page, open, api } = await setup(t);
  const dialog = page.getByRole("dialog");
  await open("/ui/subscriptions");
  await page.getByRole("button", { name: "Subscribe a URL" }).click();
  await dialog.getByLabel("URL, with http or https").fill("https://worker.example.com/wake");
  await dialog.getByLabel("Queues, separated by commas").fill("render");
  await dialog.getByRole("button", { name: "Subscribe" }).click();
  await page.getByText("https://worker.example.com/wake").waitFor();
  await page.getByRole("button", { name: "Renew" }).click();
  await page.getByText("Renewed for 24 hours").waitFor();
  const [made] = (await api.ask("/admin/subscriptions")).subscriptions;
  assert.deepEqual(made.eventTypes, ["render"]);
  await page.getByRole("button", { name: "Delete https://worker" }).click();
  await page.getByRole("button", { name: "Delete subscription" }).click();
  await page.getByText("No URL is subscribed").waitFor();
  await open("/ui/topics");
  await page.getByRole("button", { name: "Create topic" }).click();
  await dialog.getByLabel("Queue", { exact: true }).fill("render");
  await dialog.getByLabel("Leases at most").fill("4");
  await dialog.getByLabel("Leases of each lane at most").fill("2");
  await dialog.getByLabel("Units that each lane may spend").fill("100 a minute");
  assert.ok(await dialog.getByRole("button", { name: "Create topic" }).isDisabled());
  await dialog.getByLabel("Units that each lane may spend").fill("100/1m");
  await dialog.getByLabel("All tasks in one shard").check();
  await dialog.getByRole("button", { name: "Create topic" }).click();
  await page
    .getByText("4 leases, 2 leases for each lane, 100/1m for each lane, in one shard")
    .waitFor();
  await page.getByRole("button", { name: "Edit render" }).click();
  await dialog.getByLabel("Attempts, 1 to 100").fill("7");
  await dialog.getByRole("button", { name: "Save policy" }).click();
  await dialog.waitFor({ state: "hidden" });
  const { policy } = await api.ask("/admin/topics/render");
  assert.deepEqual([policy.maxAttempts, policy.maxConsumers, policy.placement], [7, 4, "one"]);
  assert.deepEqual(policy.lanes, { concurrency: 2, rate: { units: 100, per: "1m" }, weight: 1 });
  await page.getByRole("button", { name: "Delete render" }).click();
  await page.getByLabel("Type render to confirm").fill("render");
  await page.getByRole("button", { name: "Delete topic" }).click();
  await page.getByText("No queue has a policy of its own").waitFor();
  await open("/ui/webhooks");
  await page.getByRole("button", { name: "New secret…" }).click();
  await page.getByRole("button", { name: "Create secret" }).click();
  await page.getByText("Copy it now").waitFor();
  await page.getByRole("button", { name: "Done" }).click();
  const [{ id }] = (await api.ask("/admin/webhooks/secrets")).secrets;
  await page.getByRole("button", { name: `Revoke ${id}` }).click();
  await page.getByLabel(`Type ${id} to confirm`).fill(id);
  await page.getByRole("button", { name: "Revoke secret" }).click();
  await page.getByText("Revoked the secret").waitFor();
});

test("a task is enqueued by the form, with its numbers as they were written", async (t) => {
  const { page, open, api } = await setup(t);
  await open("/ui/enqueue");
  await page.getByLabel("Queue").fill("charge-card");
  await page.getByLabel("Payload").fill('{"amount": 18250.40, "id": 9007199254740993}');
  await page.getByRole("button", { name: "Enqueue task" }).click();
  await page.getByRole("link", { name: "Open it" }).click();
  await page.getByRole("heading", { name: "charge-card" }).waitFor();
  const { tasks } = await api.ask("/admin/tasks?command=charge-card");
  assert.equal(tasks[0].payload, '{"amount": 18250.40, "id": 9007199254740993}');
});

test("keys are created, shown once, and revoked", async (t) => {
  const { page, open, api } = await setup(t);
  await open("/ui/keys");
  await page.getByRole("button", { name: "Create key" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name: what the key is for").fill("billing-api");
  await dialog.getByRole("button", { name: "Create key" }).click();
  await page.getByText("Copy it now").waitFor();
  await page.getByRole("button", { name: "Done" }).click();
  const { keys } = await api.ask("/admin/keys");
  assert.deepEqual(keys[0].scopes, ["codeq:create"]);
  await page.getByRole("button", { name: "Revoke billing-api" }).click();
  await page.getByLabel("Type billing-api to confirm").fill("billing-api");
  await page.getByRole("button", { name: "Revoke key" }).click();
  await page.getByText("No API keys").waitFor();
  assert.deepEqual((await api.ask("/admin/keys")).keys, []);
  await open("/ui/audit");
  await page.getByText("revoke api key").first().waitFor();
});

test("failed tasks are failures, and what was cancelled is not", async (t) => {
  const { page, open, api } = await setup(t);
  const id = await api.create("send-email");
  await api.ask("/tasks/claim", { commands: ["send-email"] });
  await api.ask(`/tasks/${id}/result`, { status: "FAILED", error: "no such user" });
  const cancelled = await api.create("send-email");
  await api.ask(`/admin/tasks/${cancelled}/cancel`, {});
  await open("/ui/failures");
  await page.getByText("1 failure in 1 group").waitFor();
  await page.getByRole("link", { name: "All failures" }).click();
  await page.getByText("1 matching").waitFor();
  await page.getByRole("cell", { name: "Failed" }).waitFor();
  await page.getByRole("cell", { name: "1/5" }).waitFor();
  await open(`/ui/tasks/${id}`);
  await page.getByText("1 of 5, newest first").waitFor();
  await open("/ui/tasks?q=state%3Acancelled");
  await page.getByRole("cell", { name: "Cancelled", exact: true }).waitFor();
  await open("/ui/failures");
  await page.getByRole("button", { name: "Replay…" }).click();
  await page.getByRole("button", { name: "Replay 1 task" }).click();
  await page.getByText("1 of 1 task: done").waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).ready, 1);
});

test("a group of many failures is counted exactly, and its job says how many and how long", async (t) => {
  const { page, open, api } = await setup(t);
  const total = 1200;
  for (let made = 0; made < total; made += 600) {
    const task = { command: "bulk-mail", payload: {}, maxAttempts: 1 };
    await api.ask("/tasks/batch", { tasks: new Array(600).fill(task) });
  }
  for (let ended = 0; ended < total; ) {
    const { tasks } = await api.ask("/tasks/claim/batch", { commands: ["bulk-mail"], count: 256 });
    const results = tasks.map((task: { id: string }) => ({
      taskId: task.id,
      status: "FAILED",
      error: `SmtpError: 421 for ${task.id}`,
    }));
    await api.ask("/tasks/batch/results", { results });
    ended += tasks.length;
  }
  await open("/ui/failures");
  await page.getByText("1,200 failures in 1 group").waitFor();
  await page.getByRole("button", { name: "Delete…" }).click();
  const button = page.getByRole("button", { name: "Delete 1,200 tasks" });
  await button.waitFor();
  assert.ok(await button.isDisabled());
  await page.getByLabel("Type bulk-mail to confirm").fill("bulk-mail");
  await page.getByText("The job takes about 1.2 s").waitFor();
  const rate = page.getByLabel("Tasks per second at most");
  for (const refused of ["0", "10001", "fast", ""]) {
    await rate.fill(refused);
    await page.getByText("From 1 to 10,000").waitFor();
    assert.ok(await button.isDisabled(), refused);
  }
  await rate.fill("100");
  await page.getByText("The job takes about 12 s").waitFor();
  await button.click();
  await page.getByText(/of 1,200 tasks: running, about .* left/).waitFor();
});

test("a cause in many queues names a few of them in its line, and counts all", async (t) => {
  const { page, open, api } = await setup(t);
  const queues = ["q".repeat(128), ...Array.from({ length: 24 }, (_, n) => `mail-${10 + n}`)];
  for (const queue of [...queues, ...queues.slice(0, 1)])
    await api.createDead(queue, "SmtpError: 421");
  await open("/");
  await page.getByText("26 dead letters, 1 cause, 25 queues").waitFor();
  await open("/ui/failures");
  const line = page.getByRole("region", { name: "Groups" }).getByRole("link");
  await line.getByText(/^q{40}…, mail-\d\d, mail-\d\d, …$/).waitFor();
  await page.getByText("other queues").waitFor();
  assert.equal(await page.locator(".hbar .num").last().textContent(), "17");
});

test("a task is run now only where that changes something, and its own key is not shown as the user's", async (t) => {
  const { page, open, api } = await setup(t);
  const delayed = await api.create("later", { delaySeconds: 3600, idempotencyKey: "order-7" });
  await open(`/ui/tasks/${delayed}`);
  await page.getByRole("button", { name: "Run now" }).waitFor();
  await page.getByText("order-7").waitFor();
  const own = await api.create("now", { maxAttempts: 5, idempotencyKey: "auto:1b-2c" });
  await api.ask("/tasks/claim", { commands: ["now"] });
  await api.ask(`/tasks/${own}/abandon`, { interrupted: true });
  await open(`/ui/tasks/${own}`);
  await page.getByText("0 of 5, newest first").waitFor();
  await page.getByRole("cell", { name: "Handed back" }).waitFor();
  await page.getByText("not counted").waitFor();
  assert.equal(await page.getByRole("button", { name: "Run now" }).count(), 0);
  assert.equal(await page.getByText("auto:1b-2c").count(), 0);
  await api.ask("/tasks/claim", { commands: ["now"] });
  await page.getByText("1 of 5, newest first").waitFor();
});

test("a payload that is encrypted is named with its key instead of being shown", async (t) => {
  const { page, open, api } = await setup(t);
  const payload = { $encrypted: "aes-256-gcm", key: "june", data: "c2VjcmV0" };
  const id = await api.create("charge", { payload });
  await open(`/ui/tasks/${id}`);
  await page.getByRole("heading", { name: "Encrypted with the key june" }).waitFor();
  await page.getByText(`codeq decode ${id} --keys keys.json`).waitFor();
  assert.equal(await page.getByText("c2VjcmV0").count(), 0);
});
