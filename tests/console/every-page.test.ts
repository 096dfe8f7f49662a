/** Every page: nothing that axe finds, in both themes and at 360 px, and hostile data stays text. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test, { type TestContext } from "node:test";
import { codeq, task } from "@codeq/client";
import type { Page } from "playwright-core";
import { type Api, type Setup, setup } from "./setup.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const paths = [
  "/",
  "/ui/queues",
  "/ui/queues/send-email",
  `/ui/queues/${"q".repeat(128)}`,
  `/ui/failures?queue=${"q".repeat(128)}`,
  "/ui/tasks",
  "/ui/tasks?q=state%3Adead",
  "/ui/failures",
  "/ui/schedules",
  `/ui/schedules/${"s".repeat(128)}`,
  "/ui/batches",
  `/ui/batches/${"b".repeat(128)}`,
  "/ui/jobs",
  "/ui/workers",
  "/ui/webhooks",
  "/ui/subscriptions",
  "/ui/topics",
  "/ui/cluster",
  "/ui/enqueue",
  "/ui/tenants",
  "/ui/keys",
  "/ui/audit",
  "/ui/settings",
  "/ui/nowhere",
];

interface Found {
  readonly id: string;
  readonly help: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** What axe finds, by all rules or some. */
async function judged(page: Page, rules?: readonly string[]): Promise<string[]> {
  // The policy of the page forbids scripts of others, which is what axe is.
  await page.evaluate(axe);
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations } = await page.evaluate<{ violations: Found[] }>(
    `axe.run(document, ${JSON.stringify(options)})`,
  );
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html.slice(0, 200)}`);
}

async function fill(api: Api): Promise<string> {
  await api.create("send-email", { delaySeconds: 3600 });
  await api.create("resize-image");
  await api.ask("/admin/queues/resize-image/pause", { reason: "drain" });
  await api.ask("/admin/keys", { name: "billing-api", role: "admin" });
  await api.create("render");
  const { id } = await api.ask("/tasks/claim", { commands: ["render"] });
  const progress = { percent: 40, text: "page 4 of 10" };
  await api.ask(`/tasks/${id}/heartbeat`, { progress, logs: ["began", "page 4"] });
  await api.ask("/admin/subscriptions", { callbackUrl: "https://worker.example.com/wake" });
  await api.put("/admin/topics/send-email", { priorityTiers: [0, 5], maxAttempts: 3 });
  const batch = `/batches/${"b".repeat(128)}`;
  await api.put(batch, { command: longQueue, payload: {} });
  await api.createDead("count-orders", "E".repeat(4000), { batchId: "b".repeat(128) });
  await fillHostileLengths(api);
  return await api.createDead("send-email", "SmtpError: 421 from 203.0.113.7");
}

const longQueue = "q".repeat(128);
const longUrl = (host: string): string => `http://${host}/${"w".repeat(1900)}`;

/** Names, addresses and errors as long as they may be, without a space: they belong to every page. */
async function fillHostileLengths(api: Api): Promise<void> {
  await api.createDead(longQueue, "E".repeat(4000));
  await api.create(longQueue);
  await api.create(longQueue, { tags: ["t".repeat(64)], idempotencyKey: "k".repeat(256) });
  await api.create(longQueue, { lane: "l".repeat(200) });
  await api.ask("/tasks/claim", { commands: [longQueue] });
  await api.ask(`/admin/queues/${longQueue}/pause`, { reason: "r".repeat(200) });
  await api.ask("/admin/keys", { name: "n".repeat(128), role: "viewer" });
  await api.put(`/admin/schedules/${"s".repeat(128)}`, {
    command: longQueue,
    cron: "0 9 * * *",
    payload: { p: "p".repeat(4000) },
    webhook: longUrl("hooks.example.com"),
  });
  await api.ask(`/admin/schedules/${"s".repeat(128)}/pause`, { reason: "r".repeat(200) });
  await api.put(`/admin/topics/${longQueue}`, {
    priorityTiers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    maxAttempts: 100,
    deadLetterTopicRef: "d".repeat(128),
    retentionSeconds: 2_147_483_647,
  });
  await api.ask("/admin/subscriptions", {
    callbackUrl: longUrl("worker.example.com"),
    eventTypes: [longQueue],
    deliveryMode: "group",
    groupId: "g".repeat(128),
  });
  const job = { action: "replay", command: longQueue, error: "E".repeat(1000) };
  await api.ask("/admin/jobs", job);
}

/** A worker with a long name, and a webhook to an endpoint that nobody has. */
async function fillHostileWorkers(
  t: TestContext,
  { api, server, page, openWhole }: Setup,
): Promise<void> {
  const client = codeq({ url: server.url, token: "dev-token" });
  const worker = client.worker(
    task("bake").handle(() => ({})),
    { name: "W/".repeat(60) },
  );
  t.after(async () => {
    await worker.close();
    await client.close();
  });
  await api.create("bake", { webhook: longUrl("127.0.0.1:1") });
  await openWhole("/ui/webhooks");
  await page.getByRole("button", { name: "Send again" }).waitFor();
}

const wide = { width: 1280, height: 900 };
/** What differs between the looks is judged in each: colours in both themes, and everything at 360 px. */
const looks = [
  { name: "light", colorScheme: "light", size: wide },
  { name: "dark", colorScheme: "dark", size: wide, rules: ["color-contrast"] },
  { name: "360 px", colorScheme: "light", size: { width: 360, height: 740 } },
] as const satisfies readonly Look[];

interface Look {
  readonly name: string;
  readonly colorScheme: "light" | "dark";
  readonly size: { readonly width: number; readonly height: number };
  readonly rules?: readonly string[];
}

async function problemsOf(page: Page, look: Look): Promise<string[]> {
  await page.emulateMedia({ colorScheme: look.colorScheme });
  await page.setViewportSize(look.size);
  const overflow = await page.evaluate<number>(
    "document.documentElement.scrollWidth - document.documentElement.clientWidth",
  );
  const tooWide = overflow > 0 ? [`is ${overflow} px wider than the window`] : [];
  const covered = await page.evaluate<number>(
    `[...document.querySelectorAll(".panel-foot")].filter((foot) => {
      const list = foot.parentElement.querySelector("table");
      const box = foot.parentElement.querySelector(".vt") ?? list;
      const isCut = box !== null && getComputedStyle(box).overflowY === "auto";
      return list !== null && !isCut && list.getBoundingClientRect().bottom > foot.getBoundingClientRect().top + 1;
    }).length`,
  );
  const hidden = await page.evaluate<string[]>(
    `[...document.querySelectorAll(".vt, .table-wrap")]
      .filter((box) => box.scrollWidth > box.clientWidth + 1)
      .map((box) => "hides " + (box.scrollWidth - box.clientWidth) + " px of the table " + (box.ariaLabel ?? ""))`,
  );
  tooWide.push(...hidden);
  if (covered > 0) tooWide.push("has a list that runs over what is below it");
  return [...tooWide, ...(await judged(page, look.rules))];
}

test("every page can be used by everybody, light, dark and at 360 px", async (t) => {
  const browser = { bypassCSP: true, reducedMotion: "reduce" } as const;
  const env = { RESULT_WEBHOOK_MAX_ATTEMPTS: "1" };
  const given = await setup(t, { browser, env });
  const { page, openWhole, api } = given;
  const id = await fill(api);
  await fillHostileWorkers(t, given);
  const problems: string[] = [];
  for (const path of [...paths, `/ui/tasks/${id}`]) {
    await openWhole(path);
    for (const look of looks) {
      const found = await problemsOf(page, look);
      problems.push(...found.map((each) => `${path}, ${look.name}: ${each}`));
    }
  }
  assert.deepEqual(problems, []);
});

test("dialogs and the palette can be used by everybody", async (t) => {
  const { page, open, api } = await setup(t, { browser: { bypassCSP: true } });
  const id = await fill(api);
  await open(`/ui/tasks/${id}`);
  for (const key of ["e", "?", "Control+k"]) {
    await page.keyboard.press(key);
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await judged(page), [], key);
    await page.keyboard.press("Escape");
    // A closed dialog has no role any more, some milliseconds before it is gone.
    await page.locator("dialog").waitFor({ state: "detached" });
  }
});

const hostile = [
  "<script>window.hacked = 1</script>",
  "<img src=x onerror='window.hacked = 1'>",
  "\u202etxt.exe\u202c right to left",
  "javascript:window.hacked=1//",
  "'; DROP TABLE tasks; --",
  "{{constructor.constructor('window.hacked=1')()}}",
  "line one\nline two\u0000\u001b[31m\u2028",
  "half a pair \ud83d, and the other half \udc00 alone",
  `${"long".repeat(250_000)}`,
];

test("hostile data is shown as text, and nothing of it runs", async (t) => {
  const { page, open, openWhole, api } = await setup(t);
  const ids: string[] = [];
  for (const text of hostile) {
    const payload = { [text.slice(0, 200)]: text };
    ids.push(await api.createDead("constructor", text.slice(0, 4000), { payload }));
  }
  await api.ask("/admin/queues/constructor/pause", { reason: hostile[0]?.slice(0, 100) });
  for (const path of [
    "/",
    "/ui/queues",
    "/ui/queues/constructor",
    "/ui/tasks",
    "/ui/failures",
    "/ui/audit",
  ]) {
    await openWhole(path);
    assert.equal(await page.evaluate("window.hacked"), undefined, path);
    assert.equal(await page.locator("#page img, #page script").count(), 0, path);
  }
  for (const id of ids) {
    await open(`/ui/tasks/${id}`);
    assert.equal(await page.evaluate("window.hacked"), undefined);
  }
  await open(`/ui/tasks/${ids[0]}`);
  await page
    .getByText(hostile[0] ?? "")
    .first()
    .waitFor();
  await open(`/ui/tasks/${ids[2]}`);
  await page.getByText("⟨U+202E⟩txt.exe").first().waitFor();
  await open("/ui/tasks?q=%3Cscript%3Ewindow.hacked%3D1%3C%2Fscript%3E");
  assert.equal(await page.evaluate("window.hacked"), undefined);
});

test("an incident by keyboard alone: find the dead letter, read why, edit and replay", async (t) => {
  const { page, open, api } = await setup(t);
  const id = await api.createDead("send-email", "SmtpError: 421 from 203.0.113.7");
  await open("/");
  await page.getByText("send-email: 1 dead letter").waitFor();
  const press = async (...keys: string[]): Promise<void> => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await press("g", "t");
  await page.getByRole("combobox", { name: "Filter tasks" }).waitFor();
  await press("/");
  await page.keyboard.type("state:dead");
  await press("Enter", "Escape");
  await page.getByText("1 matching").waitFor();
  await page.getByRole("link", { name: id.slice(-12) }).waitFor();
  await press("j", "Enter");
  await page.getByRole("heading", { name: "Why will it not run again?" }).waitFor();
  await press("e");
  await page.getByRole("dialog").getByLabel("Payload").waitFor();
  await press("Control+a");
  await page.keyboard.type('{"n":2}');
  await page.getByText("Valid JSON").waitFor();
  await press("Tab", "Tab", "Tab");
  const focused = await page.evaluate<string>("document.activeElement.textContent");
  assert.equal(focused, "Replay as a new task");
  await press("Enter");
  await page.getByText("Enqueued the edited task").waitFor();
  const { tasks } = await api.ask("/admin/tasks?command=send-email&place=ready");
  assert.equal(tasks[0].payload, '{"n":2}');
});

test("the cursor of a list stays on its row while rows go away and come back", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("render");
  const id = await api.create("send-email");
  const filter = async (key: string, ...typed: string[]): Promise<void> => {
    await page.keyboard.press("/");
    for (const each of typed) await page.keyboard.press(each);
    await page.keyboard.press(key);
  };
  await open("/ui/tasks");
  await page.getByText("2 rows loaded").waitFor();
  await page.keyboard.press("j");
  await filter("Enter", ..."state:done");
  await page.keyboard.press("Escape");
  await page.getByText("No task matches").waitFor();
  await filter("Escape", "Backspace");
  await page.getByText("2 rows loaded").waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/ui/tasks/${id}`);

  await open("/ui/queues");
  await page.getByRole("link", { name: "send-email" }).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.getByLabel("Filter by name").fill("nothing like it");
  await page.getByText("No queue matches").waitFor();
  await page.getByLabel("Filter by name").fill("");
  await page.getByRole("link", { name: "send-email" }).waitFor();
  await page.getByLabel("Filter by name").blur();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/ui/queues/send-email");
});
