/** From an empty server to a paused queue, in a real browser. */
import assert from "node:assert/strict";
import test from "node:test";
import { setup } from "./setup.ts";

test("a new server for development signs in by itself and shows how to begin", async (t) => {
  const { page, open, api } = await setup(t);
  await open("/");
  await page.getByRole("heading", { name: "No tasks yet" }).waitFor();
  await page.getByRole("button", { name: "TypeScript" }).click();
  await page.getByText("client.enqueue").waitFor();
  await page.getByRole("button", { name: "Enqueue it from here" }).click();
  await page.getByRole("link", { name: "hello", exact: true }).waitFor();
  assert.equal((await api.ask("/admin/queues/hello")).ready, 1);
});

test("the overview turns to what needs attention by itself", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await api.ask("/tasks/claim", { commands: ["send-email"] });
  await open("/");
  await page.getByRole("heading", { name: "Everything is healthy" }).waitFor();
  await api.createDead("render", "PdfError: no fonts");
  await page.getByRole("heading", { name: "1 problem needs your attention" }).waitFor();
  await page.getByText("render: 1 dead letter").waitFor();
});

test("a queue is paused with a reason, and resumed", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await open("/ui/queues");
  await page.getByRole("button", { name: "Pause send-email" }).click();
  await page.getByText("1 waiting task stays").waitFor();
  await page.getByRole("button", { name: "Show API call" }).click();
  await page.getByText("/v1/codeq/admin/queues/send-email/pause").waitFor();
  await page.getByLabel("Reason, shown to everyone").fill("mail relay is down");
  await page.getByRole("button", { name: "Pause queue" }).click();
  const resume = page.getByRole("button", { name: "Resume send-email" });
  await resume.waitFor();
  await page.getByText("mail relay is down").waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).paused.reason, "mail relay is down");
  await resume.click();
  await page.getByRole("button", { name: "Pause send-email" }).waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).paused, undefined);
});

test("the palette finds queues and pages by keyboard", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await open("/");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search" }).fill("queues");
  await page.getByRole("option", { name: "Queues" }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  assert.equal(new URL(page.url()).pathname, "/ui/queues");
  await page.keyboard.press("g");
  await page.keyboard.press("o");
  await page.getByText("Most waiting").waitFor();
});

test("a lost connection is shown and heals", async (t) => {
  const { page, open, api, complaints } = await setup(t);
  await api.create("send-email");
  await open("/");
  await page.context().setOffline(true);
  await page.getByText("Connection to the server lost").waitFor();
  // Shown for a moment, so the wait begins before its cause.
  const again = page.getByText("Connected again").waitFor();
  await page.context().setOffline(false);
  await again;
  // The browser itself reports each request that found no server.
  for (const each of complaints()) assert.match(each, /ERR_INTERNET_DISCONNECTED/);
});

test("a server that hangs is shown within seconds, and so is its return", async (t) => {
  const { page, open, api, server } = await setup(t);
  await api.create("send-email");
  await open("/ui/queues");
  await page.getByRole("button", { name: "Live" }).waitFor();
  server.signal("SIGSTOP");
  await page.getByText("The server does not answer").waitFor({ timeout: 30_000 });
  await page.getByText("No answer", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Live" }).count(), 0);
  const again = page.getByText("Connected again").waitFor();
  server.signal("SIGCONT");
  await again;
  await page.getByRole("button", { name: "Live" }).waitFor();
});

test("a page that is paused notices a server that hangs as well", async (t) => {
  const { page, open, server } = await setup(t);
  await open("/ui/queues");
  await page.keyboard.press("p");
  await page.getByText("Resume").waitFor();
  server.signal("SIGSTOP");
  await page.getByText("The server does not answer").waitFor({ timeout: 30_000 });
  server.signal("SIGCONT");
});

test("a request that is never answered ends, while the server is alive", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("send-email");
  await page.clock.install();
  await page.route(/admin\/workers/, () => {});
  await open("/ui/queues");
  await page.evaluate(
    "history.pushState(null, '', '/ui/workers'); dispatchEvent(new PopStateEvent('popstate'))",
  );
  const end = page.getByText("The server did not answer within").waitFor();
  await page.clock.fastForward(31_000);
  await end;
  await page.getByRole("button", { name: "Live" }).waitFor();
});

test("the page of a queue shows its failures, its workers, its topic, and why nothing is handed out", async (t) => {
  const { page, open, api } = await setup(t);
  await api.createDead("render", "PdfError: no fonts");
  const rate = { units: 100, per: "1m" };
  const policy = { priorityTiers: [0], maxAttempts: 3, maxConsumers: 1, rate };
  await api.put("/admin/topics/render", { ...policy, lanes: { concurrency: 5 } });
  const limits = "1 lease, 100/1m, 5 leases for each lane";
  for (let n = 0; n < 2; n += 1) await api.create("render");
  await open("/ui/queues/render");
  await page.getByText("PdfError: no fonts").waitFor();
  await page.getByRole("img", { name: /^Time until a worker claims a task: 99th/ }).waitFor();
  await page.getByRole("img", { name: /^Time that an attempt takes: 99th/ }).waitFor();
  await page.getByRole("region", { name: "Topic" }).getByText(limits).waitFor();
  await open("/ui/topics");
  await page.getByText(limits).waitFor();
  await open("/ui/queues/render");
  const workers = page.getByRole("region", { name: "Workers" });
  await workers.getByText("No worker has a task of this queue").waitFor();
  await api.ask("/tasks/claim", { commands: ["render"] });
  await workers.getByText("1 lease", { exact: true }).waitFor();
  await page.getByText("The topic of this queue allows 1 lease at a time").waitFor();
  await api.ask("/admin/queues/render/pause", { reason: "printer on fire" });
  await page.getByText("printer on fire").waitFor();
  await page.getByRole("button", { name: "Resume" }).first().click();
  await page.getByText("The topic of this queue allows 1 lease at a time").waitFor();
});

test("a queue whose tasks no worker asks for is a problem, while a worker of another queue is connected", async (t) => {
  const { page, open, api } = await setup(t);
  await api.create("served");
  await api.ask("/tasks/claim", { commands: ["served"] });
  await api.create("unserved");
  await open("/");
  await page.getByText(/No worker for unserved, oldest/).waitFor();
});
