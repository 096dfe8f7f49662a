/** What a person is in the middle of survives what arrives meanwhile: focus, choices, menus, half-typed text. */
import assert from "node:assert/strict";
import test from "node:test";
import type { Page, Route } from "playwright-core";
import { setup } from "./setup.ts";

const focusedText = "document.activeElement.textContent";

interface Held {
  /** Resolves when the server has answered and the page has not seen it. */
  readonly answered: Promise<void>;
  readonly release: () => Promise<void>;
}

/** Keeps the next answer to such a request from the page. */
async function holdNext(page: Page, path: RegExp): Promise<Held> {
  const released = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const hold = async (route: Route): Promise<void> => {
    const response = await route.fetch();
    answered.resolve();
    await released.promise;
    await route.fulfill({ response });
    ended.resolve();
  };
  await page.route(path, hold, { times: 1 });
  const release = (): Promise<void> => {
    released.resolve();
    return ended.promise;
  };
  return { answered: answered.promise, release };
}

test("the focus stays on a link while its text changes and its row moves", async (t) => {
  const { page, open, api } = await setup(t);
  await api.createDead("render", "PdfError: no fonts");
  await open("/");
  await page.getByRole("link", { name: "Open failures" }).focus();
  await api.createDead("render", "PdfError: no fonts");
  await page.getByText("render: 2 dead letters").waitFor();
  assert.equal(await page.evaluate(focusedText), "Open failures");

  for (const queue of ["first", "first", "first", "second", "second", "third"]) {
    await api.create(queue);
  }
  await open("/ui/queues");
  const names = page.locator("td.name");
  const order = (): Promise<string[]> => names.allTextContents();
  const passesOthers = async (queue: string, tasks: number): Promise<void> => {
    const body = { tasks: Array.from({ length: tasks }, () => ({ command: queue, payload: {} })) };
    await api.ask("/tasks/batch", body);
    await names.nth(1).getByText(queue).waitFor();
  };
  await page.getByRole("link", { name: "third" }).focus();
  await passesOthers("third", 5);
  assert.deepEqual(await order(), ["render", "third", "first", "second"]);
  assert.equal(await page.evaluate(focusedText), "third");
  await passesOthers("second", 10);
  assert.deepEqual(await order(), ["render", "second", "third", "first"]);
  assert.equal(await page.evaluate(focusedText), "third");
  await passesOthers("first", 15);
  assert.equal(await page.evaluate(focusedText), "third");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/ui/queues/third");
});

test("the group of failures on the page stays when another one becomes larger", async (t) => {
  const { page, open, api } = await setup(t);
  for (let n = 0; n < 2; n += 1) await api.createDead("render", "PdfError: no fonts");
  await api.createDead("send-email", "SmtpError: refused");
  await open("/ui/failures");
  const shown = page.getByRole("region", { name: "Group", exact: true });
  await shown.getByText("PdfError: no fonts").first().waitFor();
  for (let n = 0; n < 2; n += 1) await api.createDead("send-email", "SmtpError: refused");
  await page.locator(".groups li").first().getByText("SmtpError: refused").waitFor();
  await shown.getByText("PdfError: no fonts").first().waitFor();
});

test("the choice in the palette stays when queues arrive above it", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await open("/ui/settings");
  const queues = await holdNext(page, /admin\/queues\?view=details/);
  await page.keyboard.press("Control+k");
  await queues.answered;
  await page.getByRole("combobox", { name: "Search" }).fill("e");
  const chosen = page.getByRole("option", { selected: true });
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  const before = await chosen.textContent();
  await queues.release();
  await page.getByRole("option", { name: "send-email" }).waitFor();
  assert.equal(await chosen.textContent(), before);
});

test("what is typed right after the key that opens the palette is meant for the palette", async (t) => {
  const { page, open } = await setup(t);
  await open("/ui/queues");
  const focused = await page.evaluate<string>(`(async () => {
    const init = { key: "k", ctrlKey: true, bubbles: true };
    document.body.dispatchEvent(new KeyboardEvent("keydown", init));
    await new Promise((done) => { const { port1, port2 } = new MessageChannel(); port2.onmessage = done; port1.postMessage(0); });
    return document.activeElement.getAttribute("aria-label");
  })()`);
  assert.equal(focused, "Search");
});

test("an answer from before a change is not shown after it", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await open("/ui/queues");
  const old = await holdNext(page, /admin\/queues\?view=details/);
  await api.create("send-email");
  await old.answered;
  // Nothing but the change itself makes the page ask.
  await page.keyboard.press("p");
  await page.getByRole("button", { name: "Pause send-email" }).click();
  await page.getByRole("button", { name: "Pause queue" }).click();
  await page.getByText("Paused send-email").waitFor();
  await old.release();
  await page.getByRole("button", { name: "Resume send-email" }).waitFor();
});

test("new tasks are loaded at once while the page is looking for changes", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await open("/ui/tasks");
  await page.getByText("1 row loaded").waitFor();
  await api.create("send-email");
  const news = page.getByRole("button", { name: "1 new" });
  await news.waitFor();
  const look = await holdNext(page, /admin\/tasks\?/);
  await api.create("send-email");
  await look.answered;
  await news.click();
  await page.getByText("3 rows loaded").waitFor();
  await look.release();
  await page.getByText("3 matching").waitFor();
  assert.equal(await page.getByText("3 rows loaded").isVisible(), true);
});

test("a dialog that was closed while it acted neither closes another one nor hides a refusal", async (t) => {
  const { page, open, api, complaints } = await setup(t);
  await api.create("send-email");
  await open("/ui/queues");
  const search = page.getByRole("combobox", { name: "Search" });
  const pauseAndLeave = async (): Promise<void> => {
    await page.getByRole("button", { name: "Pause send-email" }).click();
    await page.getByRole("button", { name: "Pause queue" }).click();
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "detached" });
    await page.keyboard.press("Control+k");
    await search.fill("half a wo");
  };
  const refused = Promise.withResolvers<void>();
  await page.route(
    /queues\/send-email\/pause/,
    async (route) => {
      await refused.promise;
      await route.fulfill({ status: 503, body: '{"error":"storage is full"}' });
    },
    { times: 1 },
  );
  await pauseAndLeave();
  refused.resolve();
  await page.getByText("storage is full").waitFor();
  assert.equal(await search.inputValue(), "half a wo");
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });

  const paused = await holdNext(page, /queues\/send-email\/pause/);
  await pauseAndLeave();
  await paused.release();
  await page.getByText("Paused send-email").waitFor();
  assert.equal(await search.inputValue(), "half a wo");
  for (const each of complaints()) assert.match(each, /503/);
});

test("an open menu, a selection and a half-typed filter stay while rows change", async (t) => {
  const { page, open, api } = await setup(t);
  const id = await api.create("send-email");
  await open("/ui/tasks");
  await page.getByLabel(`Select ${id}`).check();
  const field = page.getByRole("combobox", { name: "Filter tasks" });
  await field.fill("queue:sen");
  await page.keyboard.press("ArrowLeft");
  await api.ask("/tasks/claim", { commands: ["send-email"] });
  await page.getByRole("cell", { name: "Leased" }).waitFor();
  await page.keyboard.type("d-");
  assert.equal(await field.inputValue(), "queue:sed-n");
  assert.equal(await page.getByLabel(`Select ${id}`).isChecked(), true);
  await page.getByText("Columns", { exact: true }).click();
  await api.ask(`/tasks/${id}/nack`, { reason: "SmtpError: 421", delaySeconds: 60 });
  await page.getByRole("cell", { name: "Delayed" }).waitFor();
  assert.equal(await page.getByLabel("Last error").isVisible(), true);
});

test("selected lines of a log stay selected while older lines go away", async (t) => {
  const { page, open, api } = await setup(t);
  const id = await api.create("render");
  await api.ask("/tasks/claim", { commands: ["render"] });
  const logs = Array.from({ length: 50 }, (_, n) => `line ${n} of the log`);
  await api.ask(`/tasks/${id}/heartbeat`, { logs });
  await open(`/ui/tasks/${id}`);
  const log = page.getByRole("log");
  await log.getByText("line 30 of the log").waitFor();
  await page.evaluate(`getSelection().selectAllChildren(
    [...document.querySelectorAll(".log bdi")].find((line) => line.textContent === "line 30 of the log"))`);
  // Reports that follow too soon are dropped, so a worker says it again.
  const last = log.getByText("the last line").first();
  while (!(await last.isVisible())) {
    await api.ask(`/tasks/${id}/heartbeat`, { logs: ["the last line"] });
  }
  assert.equal(await log.getByText("line 0 of the log").count(), 0);
  assert.equal(await page.evaluate("getSelection().toString()"), "line 30 of the log");
});

test("signing out from the open navigation of a narrow screen leaves a page that can be used", async (t) => {
  const viewport = { width: 360, height: 740 };
  const { page, open } = await setup(t, { browser: { viewport } });
  await open("/ui/queues");
  await page.getByRole("button", { name: "Open navigation" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  const field = page.getByLabel("API key or token");
  await field.waitFor();
  const [x, y] = [180, 370];
  const top = await page.evaluate<string>(`document.elementFromPoint(${x}, ${y}).tagName`);
  assert.notEqual(top, "BODY", "something lies over the form");
  await field.click();
});

test("the link that skips the navigation moves the focus to the page", async (t) => {
  const { page, open } = await setup(t);
  await open("/ui/queues");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(focusedText), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate("document.activeElement.id"), "page");
  assert.equal(await page.evaluate("location.pathname"), "/ui/queues");
});

test("a row that is taken out of all that match is not selected any more", async (t) => {
  const { page, open, api } = await setup(t);
  const first = await api.create("send-email");
  await open("/ui/tasks");
  await page.getByLabel(`Select ${first}`).check();
  await page.getByRole("button", { name: /Select all .*matching/ }).click();
  const second = await api.create("send-email");
  await page.getByRole("button", { name: "1 new" }).click();
  await page.getByLabel(`Select ${second}`).uncheck();
  assert.equal(await page.getByLabel(`Select ${first}`).isChecked(), true);
  await page.getByText("1 selected").waitFor();
});
