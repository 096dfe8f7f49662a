/** A worker as an HTTP handler, inside real frameworks and started by a real server. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import test, { type TestContext } from "node:test";
import { type Client, type FetchHandler, nodeHandler, serve, task } from "@codeq/client";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { type Setup, setup } from "./setup.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const double = task<number, number>("double");
const doubler = double.handle((n) => n * 2);

function signed(text: string): Record<string, string> {
  const id = "msg-1";
  const timestamp = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  const mac = createHmac("sha256", key).update(`${id}.${timestamp}.${text}`).digest("base64");
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${mac}`,
    "content-type": "application/json",
  };
}

const body = JSON.stringify({
  ...{ notificationId: "n", eventType: "double", queueDepth: 1, subscriptionId: "s", sentAt: "" },
});

function notify(handle: FetchHandler, text = body, headers = signed(body)): Promise<Response> {
  return handle(new Request("http://f/", { method: "POST", body: text, headers }));
}

/** Where each framework mounts it; gives the address. */
const frameworks: Readonly<
  Record<string, (t: TestContext, handle: FetchHandler) => Promise<string>>
> = {
  "node:http": (t, handle) => listen(t, createServer(nodeHandler(handle))),
  Express: (t, handle) => {
    const app = express();
    app.post("/", (request, response) => void nodeHandler(handle)(request, response));
    return listen(t, createServer(app));
  },
  Hono: async (t, handle) => {
    const app = new Hono();
    app.post("/", (c) => handle(c.req.raw));
    const fetch = (request: Request): Promise<Response> => Promise.resolve(app.fetch(request));
    return listen(t, createServer(nodeHandler(fetch)));
  },
  Fastify: async (t, handle) => {
    const app = fastify();
    const asText = { parseAs: "string" } as const;
    app.removeContentTypeParser("application/json");
    app.addContentTypeParser("application/json", asText, (_request, text, done) =>
      done(null, text),
    );
    app.post("/", async (request, reply) => {
      reply.hijack();
      await nodeHandler(handle)(request.raw, reply.raw, request.body);
    });
    t.after(() => app.close());
    return app.listen({ port: 0, host: "127.0.0.1" });
  },
};

async function listen(t: TestContext, server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

for (const [name, mount] of Object.entries(frameworks)) {
  test(`${name}: a notification of the server starts it, and the tasks are done`, async (t) => {
    const world = await setup(t, { WEBHOOK_HMAC_SECRET: secret });
    const client = world.client();
    const url = await mount(t, serve(client, doubler, { secret, maxDuration: "10s", idle: 200 }));
    await client.subscriptions.create({ url: `${url}/`, tasks: ["double"] });
    const runs = await client.enqueueMany(double, [{ input: 1 }, { input: 2 }]);
    const results = await Promise.all(runs.map((run) => run.result({ timeout: "60s" })));
    assert.deepEqual(results, [2, 4]);
  });
}

async function served(t: TestContext): Promise<{ world: Setup; client: Client }> {
  const world = await setup(t);
  return { world, client: world.client() };
}

test("what is not from the server starts nothing", async (t) => {
  const { client } = await served(t);
  const handle = serve(client, doubler, { secret, maxDuration: "10s" });
  const run = await client.enqueue(double, 1);
  assert.equal((await handle(new Request("http://f/"))).status, 405);
  assert.equal((await notify(handle, body, {} as never)).status, 401);
  assert.equal((await notify(handle, `${body} `)).status, 401);
  assert.equal((await notify(handle, "x".repeat(70_000))).status, 413);
  const other = { ...signed(body), "webhook-timestamp": "1" };
  assert.equal((await notify(handle, body, other)).status, 401);
  assert.equal((await run.status()).status, "PENDING");
});

test("it ends when there is nothing more to do, and says what it did", async (t) => {
  const { client } = await served(t);
  await client.enqueueMany(double, [{ input: 1 }, { input: 2 }, { input: -1, maxAttempts: 1 }]);
  const handler = double.handle((n) => {
    if (n < 0) throw new Error("negative");
    return n;
  });
  const on = { failed: () => {} };
  const handle = serve(client, handler, { secret, maxDuration: "60s", idle: 200, on });
  const answer = await notify(handle);
  assert.equal(answer.status, 200);
  const done = { completed: 2, failed: 0, retry: 0, dead_letter: 1, handed_back: 0 };
  assert.deepEqual(await answer.json(), done);
  const late: Promise<unknown>[] = [];
  const waitUntil = (work: Promise<unknown>): void => void late.push(work);
  const early = serve(client, handler, { secret, maxDuration: "60s", idle: 200, waitUntil });
  assert.equal((await notify(early)).status, 202);
  assert.deepEqual(await Promise.all(late), [{ ...done, completed: 0, dead_letter: 0 }]);
});

test("when its time is nearly over, it hands back the rest without an attempt", async (t) => {
  const { client } = await served(t);
  const runs = await client.enqueueMany(double, [{ input: 1 }, { input: 2 }]);
  const handler = double.handle(async (n, { signal }) => {
    if (n === 1) return n;
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    return n;
  });
  const handle = serve(client, handler, { secret, maxDuration: "2s", concurrency: 2 });
  const answer = (await (await notify(handle)).json()) as Record<string, number>;
  assert.deepEqual([answer["completed"], answer["handed_back"]], [1, 1]);
  const status = await runs[1]?.status();
  assert.deepEqual([status?.status, status?.attempts ?? 0], ["PENDING", 0]);
  client.worker(doubler);
  assert.equal(await runs[1]?.result({ timeout: "30s" }), 4);
});
