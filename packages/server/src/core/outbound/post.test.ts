import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import test, { type TestContext } from "node:test";
import type { TenantId } from "@codeq/queue";
import { SimClock } from "@codeq/simulated";
import { noWebhookSecrets } from "../../config/blobs.ts";
import { untracedPost } from "../../telemetry/tracing/tracing.ts";
import { createPost } from "./post.ts";

async function listen(t: TestContext, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Takes connections and says nothing. */
async function silent(t: TestContext): Promise<{ port: number; connected: Promise<Socket> }> {
  const { promise: connected, resolve } = Promise.withResolvers<Socket>();
  const server = createServer((socket) => resolve(socket.on("error", () => {}).resume()));
  return { port: await listen(t, server), connected };
}

function setup({ allowPrivateNetworks = true }: { allowPrivateNetworks?: boolean } = {}) {
  const clock = new SimClock();
  const secrets = { webhookHmacSecret: "", webhookSecrets: noWebhookSecrets };
  const config = { ...secrets, webhookAllowPrivateNetworks: allowPrivateNetworks };
  const post = createPost({ config, clock });
  const traced = untracedPost({ traceParent: "", traceState: "" });
  const message = { tenantId: "acme" as TenantId, id: "msg_1", body: "{}", secrets: [], traced };
  const send = (url: string) => post({ ...message, url });
  return { clock, send };
}

test("a connection that does not come about is given up after 3 seconds", async (t) => {
  const { clock, send } = setup();
  const { port, connected } = await silent(t);
  const status = send(`https://127.0.0.1:${port}/`);
  const socket = await connected;
  await clock.advance(2999);
  assert.equal(socket.readyState, "open");
  await clock.advance(1);
  assert.deepEqual(await status, { why: "no answer before the timeout" });
  assert.equal(clock.timers, 0);
});

test("an answer that does not come is given up after 15 seconds", async (t) => {
  const { clock, send } = setup();
  const { port, connected } = await silent(t);
  const status = send(`http://127.0.0.1:${port}/`);
  const socket = await connected;
  await clock.advance(14_999);
  assert.equal(socket.readyState, "open");
  await clock.advance(1);
  assert.deepEqual(await status, { why: "no answer before the timeout" });
});

test("an answer without end is cut, and its status counts", async (t) => {
  const { clock, send } = setup();
  const server = createHttpServer((_, response) => {
    response.writeHead(202);
    const more = (): void => {
      while (response.write("x".repeat(10_000)));
      response.once("drain", more);
    };
    more();
  });
  const port = await listen(t, server);
  assert.equal(await send(`http://127.0.0.1:${port}/`), 202);
  assert.equal(clock.timers, 0);
});

test("an endpoint where nobody listens gives no answer, and says why", async () => {
  const why = "connect ECONNREFUSED 127.0.0.1:1";
  assert.deepEqual(await setup().send("http://127.0.0.1:1/"), { why });
});

test("an address that is not allowed is told with the setting that allows it", async () => {
  const { send } = setup({ allowPrivateNetworks: false });
  for (const host of ["127.0.0.1", "localhost"]) {
    const why =
      `${host} is a loopback or private address; ` +
      "set webhookAllowPrivateNetworks to allow webhooks to it";
    assert.deepEqual(await send(`http://${host}:1/`), { why, isForbidden: true });
  }
});

test("what the HTTP client does not take is a rejection", async () => {
  await assert.rejects(setup().send("http://%ff@127.0.0.1/"), URIError);
});
