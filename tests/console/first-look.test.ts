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
  await page.context().setOffline(false);
  await page.getByText("Connected again").waitFor();
  // The browser itself reports each request that found no server.
  for (const each of complaints()) assert.match(each, /ERR_INTERNET_DISCONNECTED/);
});
