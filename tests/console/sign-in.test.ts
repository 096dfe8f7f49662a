/** Signing in with a key or at a real identity server, and what each role sees. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";
import { Api, setup } from "./setup.ts";
import { startSignInServer } from "./sign-in-server.ts";

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
    { token: "ops-secret-00001", subject: "otto", raw: { tenantId: "ops", role: "operator" } },
  ]),
  WORKER_AUTH_CONFIG: JSON.stringify([
    {
      token: "worker-secret-1",
      subject: "w",
      scopes: ["codeq:claim", "codeq:nack", "codeq:result"],
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
    if (!response.url().includes("/admin/tasks")) return;
    // An answer that arrives while the page is left is in reach of no one.
    seen.push(await response.text().catch(() => ""));
  });
  await open("/");
  await page.getByLabel("API key or token").fill("eyes-secret-0001");
  await page.keyboard.press("Enter");
  await page.getByText("eva · viewer, payloads hidden").waitFor();
  assert.equal(await page.getByRole("link", { name: "API keys" }).count(), 0);
  await open(`/ui/tasks/${id}`);
  await page.getByText("Your API key hides payloads and results").waitFor();
  await page.getByText("SmtpError: 421").first().waitFor();
  for (const name of ["Replay", "Delete…"]) {
    assert.ok(await page.getByRole("button", { name, exact: true }).isDisabled(), name);
  }
  for (const name of ["Edit and replay", "Clone"]) {
    assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  }
  await page.keyboard.press("r");
  await page.getByLabel("More actions").click();
  await page.getByRole("button", { name: "Copy as SDK call" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Copy enqueue call as curl" }).count(), 0);
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search" }).fill("e");
  await page.getByRole("option", { name: "Settings" }).waitFor();
  for (const name of ["Enqueue", "API keys", "Tenants"]) {
    assert.equal(await page.getByRole("option", { name }).count(), 0, name);
  }
  await page.keyboard.press("Escape");
  assert.equal(new URL(page.url()).pathname, `/ui/tasks/${id}`);
  await open("/ui/enqueue");
  await page.getByText("Your role is viewer, which cannot open this page").waitFor();
  await open("/ui/failures");
  await page.getByText("1 failure in 1 group").waitFor();
  assert.ok(await page.getByRole("button", { name: "Resolve" }).isDisabled());
  assert.ok(seen.length > 0 && seen.every((text) => !text.includes("payload-of-acme")));
  for (const each of complaints()) assert.match(each, /401 \(Unauthorized\)/);
});

test("an operator sees all of a task of another tenant, and hands off a shard", async (t) => {
  const { page, open, server, complaints } = await setup(t, { env: production });
  const worker = new Api(server.url, "worker-secret-1");
  const shop = new Api(server.url, "shop-secret-0001");
  const { id } = await shop.ask("/tasks", { command: "render", payload: {} });
  await worker.ask("/tasks/claim", { commands: ["render"] });
  await fetch(`${server.url}/v1/codeq/tasks/${id}/artifacts/report.txt`, {
    method: "PUT",
    headers: { authorization: "Bearer worker-secret-1", "content-type": "text/plain" },
    body: "ten pages",
  });
  await worker.ask(`/tasks/${id}/result`, { status: "COMPLETED", result: {} });
  await open(`/ui/tasks/${id}?tenant=acme`);
  await page.getByLabel("API key or token").fill("ops-secret-00001");
  await page.keyboard.press("Enter");
  await page.getByText("w completed it").waitFor();
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download report.txt" }).click(),
  ]);
  assert.equal(await readFile(await file.path(), "utf8"), "ten pages");
  await open("/ui/enqueue?tenant=acme");
  await page.getByText("The task goes to your own tenant, ops").waitFor();

  // What a node of a cluster answers; what the button asks goes to the real server, which runs alone.
  await page.route(/\/v1\/codeq\/cluster$/, (route) => route.fulfill({ json: threeNodes }));
  await open("/ui/cluster");
  await page.getByRole("button", { name: "Hand off shard 1" }).click();
  await page.getByText("b leads now.").waitFor();
  assert.equal(
    await page.getByRole("dialog").getByRole("button", { name: "b", exact: true }).count(),
    0,
  );
  await page.getByRole("dialog").getByRole("button", { name: "c", exact: true }).click();
  const [asked] = await Promise.all([
    page.waitForRequest((request) => request.url().includes("/cluster/handoff")),
    page.getByRole("dialog").getByRole("button", { name: "Hand off shard 1" }).click(),
  ]);
  assert.deepEqual(asked.postDataJSON(), { shard: "1", to: "c" });
  await page.getByText("Handed off shard 1").waitFor();
  for (const each of complaints()) assert.match(each, /401 \(Unauthorized\)/);
});

const replica = { role: "follower", epoch: 3, slot: 20, index: 20, silentMs: 5 };
const threeNodes = {
  enabled: true,
  self: "a",
  nodes: ["a", "b", "c"].map((id) => ({ id, address: `${id}.example.com:7000` })),
  shards: ["a", "b"].map((leader, shard) => ({ ...replica, shard, leader })),
  control: { ...replica, leader: "a" },
  disk: { freeBytes: 5e9, minFreeBytes: 1e9 },
};

test("people sign in at an identity server, and nothing but its own answer to this browser counts", async (t) => {
  const identity = await startSignInServer(t);
  const { page, open, server, complaints } = await setup(t, {
    env: {
      ...production,
      PRODUCER_AUTH_CONFIG: JSON.stringify({
        jwksUrl: `${identity.issuer}/jwks`,
        issuer: identity.issuer,
        audience: "codeq",
      }),
      CODEQ_CONSOLE_LOGIN_CLIENT_ID: "console",
      CODEQ_CONSOLE_LOGIN_CLIENT_SECRET: identity.clientSecret,
      CODEQ_CONSOLE_LOGIN_RESOURCE: "urn:codeq",
    },
  });
  const callback = `${server.url}/ui/login/callback`;
  identity.allow(callback);
  const urls: string[] = [];
  page.on("request", (request) => urls.push(request.url()));
  await open("/ui/queues?kind=all");
  await page.getByRole("link", { name: "Sign in at localhost" }).click();
  await page.getByRole("button", { name: "Continue as ana" }).click();
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  await page.getByText("ana · admin").waitFor();
  assert.equal(page.url(), `${server.url}/ui/queues?kind=all`);
  assert.equal(await page.evaluate("document.cookie"), "");
  const asked = new URL(urls.find((url) => url.includes("code_challenge=")) ?? "");
  assert.equal(asked.searchParams.get("code_challenge_method"), "S256");
  assert.ok((asked.searchParams.get("nonce") ?? "").length >= 32);
  const answer = urls.find((url) => url.startsWith(`${callback}?`)) ?? "";
  assert.match(answer, /[?&]code=[^&]+&/);

  // The browser goes back in its history, or somebody read the address: the code counts once.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.goto(answer);
  await page.getByText("started in another browser or tab").waitFor();

  // Another site sends the browser an answer that it did not ask for, or that names another issuer.
  const started = await begin(server.url);
  const good = new URL(await identity.answer(started.url));
  const refusals: readonly (readonly [string, Record<string, string>, string])[] = [
    ["expired", { state: "chosen-by-another-site" }, started.cookie],
    ["expired", {}, ""],
    ["expired", {}, (await begin(server.url)).cookie],
    ["issuer", { iss: "https://other.example.com" }, started.cookie],
    ["refused", { code: "guessed" }, started.cookie],
  ];
  for (const [problem, changes, cookie] of refusals) {
    const url = new URL(good);
    for (const [name, value] of Object.entries(changes)) url.searchParams.set(name, value);
    const reply = await fetch(url, { redirect: "manual", headers: { cookie } });
    assert.equal(reply.headers.get("location"), `/ui?login=${problem}`, JSON.stringify(changes));
    assert.ok(!String(reply.headers.getSetCookie()).includes("codeq-session"), problem);
  }
  const finished = await fetch(good, { redirect: "manual", headers: { cookie: started.cookie } });
  assert.match(String(finished.headers.getSetCookie()), /codeq-session-\d+=[\w-]{100}/);
  const repeated = await fetch(good, { redirect: "manual", headers: { cookie: started.cookie } });
  assert.equal(repeated.headers.get("location"), "/ui?login=refused");

  // Where the browser goes afterwards is a page of the console.
  for (const to of [
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "/ui/../v1",
    "/uix",
  ]) {
    const { cookie, url } = await begin(server.url, to);
    const reply = await fetch(await identity.answer(url), {
      redirect: "manual",
      headers: { cookie },
    });
    assert.equal(reply.headers.get("location"), "/ui", to);
  }

  // Who is known there and has no role here is told so.
  identity.claims = { tenantId: "acme" };
  await page.getByRole("link", { name: "Sign in at localhost" }).click();
  await page.getByText("You have no role for this console").waitFor();
  for (const each of complaints()) assert.match(each, /401 \(Unauthorized\)/);
});

/** Begins to sign in as a browser would: where it is sent, and its cookie. */
async function begin(server: string, to = "/ui"): Promise<{ url: string; cookie: string }> {
  const path = `${server}/ui/login?${new URLSearchParams({ to })}`;
  const reply = await fetch(path, { redirect: "manual" });
  assert.equal(reply.status, 303, await reply.text());
  const cookie = reply.headers.getSetCookie()[0] ?? "";
  assert.match(cookie, /; Path=\/ui\/login; HttpOnly; SameSite=Lax; Max-Age=600$/);
  return { url: reply.headers.get("location") ?? "", cookie: cookie.split(";")[0] ?? "" };
}
