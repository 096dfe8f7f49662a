/** From an empty server to a paused queue, in a real browser. */
import assert from "node:assert/strict";
import test from "node:test";
import { Api, setup } from "./setup.ts";

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
  await page.getByText("mail relay is down").waitFor();
  assert.equal((await api.ask("/admin/queues/send-email")).paused.reason, "mail relay is down");
  await page.getByRole("button", { name: "Resume send-email" }).click();
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

const production = {
  ENV: "prod",
  WEBHOOK_HMAC_SECRET: "a long secret for nothing but this test",
  PRODUCER_AUTH_CONFIG: JSON.stringify([
    { token: "admin-secret-0001", subject: "ana", raw: { tenantId: "acme", role: "admin" } },
    {
      token: "eyes-secret-0001",
      subject: "eva",
      raw: { tenantId: "acme", roles: ["viewer", "payloads-hidden"] },
    },
    { token: "shop-secret-0001", subject: "shop", raw: { tenantId: "acme" } },
  ]),
  WORKER_AUTH_CONFIG: JSON.stringify([
    {
      token: "worker-secret-1",
      subject: "w",
      scopes: ["codeq:claim", "codeq:nack"],
      eventTypes: ["*"],
      raw: { tenantId: "acme" },
    },
  ]),
};

test("elsewhere one signs in with a key, and it is neither in a URL nor in reach of scripts", async (t) => {
  const { page, open, complaints } = await setup(t, { env: production });
  const urls: string[] = [];
  page.on("request", (request) => urls.push(request.url()));
  await open("/");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  const field = page.getByLabel("API key or token");
  await field.fill("shop-secret-0001");
  await page.keyboard.press("Enter");
  await page.getByText("This key has no role for the console").waitFor();
  await field.fill("admin-secret-0001");
  await page.keyboard.press("Enter");
  await page.getByText("ana · admin").waitFor();
  assert.equal(await page.evaluate("document.cookie"), "");
  assert.ok(!(await page.evaluate<string>("JSON.stringify(localStorage)")).includes("secret"));
  assert.ok(urls.length > 3 && urls.every((url) => !url.includes("secret")), urls.join("\n"));
  await page.reload();
  await page.getByText("ana · admin").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  // Refusals of a session are reported by the browser, too.
  for (const each of complaints()) assert.match(each, /401 \(Unauthorized\)/);
});

test("a viewer looks at everything and can press nothing; hidden payloads never reach the browser", async (t) => {
  const { page, open, server, complaints } = await setup(t, { env: production });
  const worker = new Api(server.url, "worker-secret-1");
  const shop = new Api(server.url, "shop-secret-0001");
  const payload = { secret: "payload-of-acme" };
  const { id } = await shop.ask("/tasks", { command: "send-email", payload, maxAttempts: 1 });
  await worker.ask("/tasks/claim", { commands: ["send-email"] });
  await worker.ask(`/tasks/${id}/nack`, { reason: "SmtpError: 421" });
  const seen: string[] = [];
  page.on("response", async (response) => {
    if (response.url().includes("/admin/tasks")) seen.push(await response.text());
  });
  await open("/");
  await page.getByLabel("API key or token").fill("eyes-secret-0001");
  await page.keyboard.press("Enter");
  await page.getByText("eva · viewer, payloads hidden").waitFor();
  assert.equal(await page.getByRole("link", { name: "API keys" }).count(), 0);
  await open(`/ui/tasks/${id}`);
  await page.getByText("Hidden by your role").waitFor();
  await page.getByText("SmtpError: 421").first().waitFor();
  for (const name of ["Replay", "Edit and replay", "Delete…"]) {
    assert.ok(await page.getByRole("button", { name, exact: true }).isDisabled(), name);
  }
  await page.keyboard.press("r");
  await open("/ui/failures");
  await page.getByText("1 dead letter in 1 group").waitFor();
  assert.ok(await page.getByRole("button", { name: "Resolve" }).isDisabled());
  assert.ok(seen.length > 0 && seen.every((text) => !text.includes("payload-of-acme")));
  for (const each of complaints()) assert.match(each, /401 \(Unauthorized\)/);
});
