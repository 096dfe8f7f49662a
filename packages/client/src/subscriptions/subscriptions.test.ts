import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { type CodeqError, task } from "../index.ts";
import { systemRuntime } from "../runtime.ts";
import { testServer } from "../test-server/index.ts";

const resize = task<{ readonly image: string }>("Resize");
const url = "http://worker-1.example:9100/wake";

test("a subscription is made, renewed, listed, looked at and deleted", async () => {
  await using server = await testServer({ startAt: Date.UTC(2026, 0, 1) });
  const { subscriptions } = server.client;
  const made = await subscriptions.create({
    url: "https://worker.example/wake",
    tasks: ["Resize"],
    group: "g",
    minInterval: "90s",
  });
  assert.deepEqual(made.expiresAt, new Date(Date.UTC(2026, 0, 1, 0, 5)));
  const renewed = await subscriptions.renew(made.id, { ttl: "1h" });
  assert.deepEqual(renewed.expiresAt, new Date(Date.UTC(2026, 0, 1, 1)));
  const found = await subscriptions.get(made.id);
  assert.deepEqual(found, {
    id: made.id,
    url: "https://worker.example/wake",
    tasks: ["Resize"],
    mode: "group",
    group: "g",
    minIntervalSeconds: 90,
    createdAt: new Date(Date.UTC(2026, 0, 1)),
    createdBy: found.createdBy,
    expiresAt: renewed.expiresAt,
  });
  const listed: string[] = [];
  for await (const { id } of subscriptions.list()) listed.push(id);
  assert.deepEqual(listed, [made.id]);
  await subscriptions.delete(made.id);
  await assert.rejects(
    subscriptions.get(made.id),
    (error: CodeqError) => error.code === "subscription_not_found",
  );
});

test("a worker that polls is woken when there is work", async () => {
  await using server = await testServer();
  await using wakeUp = await server.client.subscriptions.listen({ url, port: 9100 });
  const done: string[] = [];
  /** Takes what there is, and sleeps again. */
  const poll = async (): Promise<void> => {
    const worker = server.client.worker(
      resize.handle(({ image }) => void done.push(image)),
      { maxTasks: 1 },
    );
    await worker.done;
  };
  const woken = wakeUp.next({ timeout: "1h" });
  await server.client.enqueue(resize, { image: "cat" }, { delay: "10m" });
  await server.advance("10m");
  const notification = await woken;
  assert.deepEqual([notification?.task, notification?.queueDepth], ["resize", 1]);
  await poll();
  assert.deepEqual(done, ["cat"]);
  const nothing = wakeUp.next({ timeout: "1m" });
  await server.advance("1m");
  assert.equal(await nothing, undefined);
});

test("what comes while nobody waits is kept, once", async () => {
  await using server = await testServer();
  await using wakeUp = await server.client.subscriptions.listen({ url, port: 9100 });
  await server.client.enqueue(resize, { image: "cat" });
  await server.advance("1m");
  assert.notEqual(await wakeUp.next(), undefined);
  const second = wakeUp.next({ signal: AbortSignal.abort() });
  assert.equal(await second, undefined);
});

test("a subscription is kept alive while somebody listens, and gone afterwards", async () => {
  await using server = await testServer();
  const { subscriptions } = server.client;
  const wakeUp = await subscriptions.listen({ url, port: 9100, ttl: "30s" });
  await server.advance("10m");
  assert.equal((await subscriptions.get(wakeUp.id)).url, url);
  // Somebody else deleted it.
  const { id } = wakeUp;
  await subscriptions.delete(id);
  await server.advance("1m");
  assert.notEqual(wakeUp.id, id);
  assert.equal((await subscriptions.get(wakeUp.id)).url, url);
  await wakeUp.close();
  assert.equal(await wakeUp.next(), undefined);
  const listed: string[] = [];
  for await (const each of subscriptions.list()) listed.push(each.id);
  assert.deepEqual(listed, []);
});

test("what is not signed with the secret wakes nobody", async () => {
  await using server = await testServer();
  const { subscriptions } = server.client;
  const options = { url, port: 9100, secret: "s3cret" };
  await using wakeUp = await subscriptions.listen(options);
  await server.client.enqueue(resize, { image: "cat" });
  const woken = wakeUp.next({ timeout: "1m" });
  await server.advance("2m");
  assert.equal(await woken, undefined);
});

test("a port takes POSTs of a bounded size, and says when it is taken", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  const { port: takenPort } = taken.address() as AddressInfo;
  const at = { port: takenPort, host: "127.0.0.1" };
  await assert.rejects(
    systemRuntime.listen(at, () => 204),
    (error: CodeqError) => /give another port/.test(error.message),
  );
  await new Promise((resolve) => taken.close(resolve));
  const bodies: string[] = [];
  const receiver = await systemRuntime.listen(at, ({ body }) => {
    bodies.push(String(body));
    return 204;
  });
  const target = `http://127.0.0.1:${takenPort}/`;
  const send = (init: RequestInit): Promise<number> =>
    fetch(target, init).then(
      ({ status }) => status,
      () => 0,
    );
  assert.equal(await send({ method: "POST", body: "{}" }), 204);
  assert.equal(await send({}), 405);
  assert.equal(await send({ method: "POST", body: "x".repeat(100_000) }), 0);
  assert.deepEqual(bodies, ["{}"]);
  await receiver.close();
});
