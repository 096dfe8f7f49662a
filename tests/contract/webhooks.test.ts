/** Webhooks: contract 6.1, 6.2 and 13 W1, S5, against a real receiver where the wire matters. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import test, { type TestContext } from "node:test";
import { verifyWebhook } from "@codeq/client";
import { type Options, onlyWith, type RunningServer, setup, startMs, until } from "./setup.ts";

interface Delivery {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Receiver {
  readonly url: string;
  readonly port: number;
  readonly deliveries: Delivery[];
}

interface Answer {
  readonly status: number;
  readonly location?: string;
}

/** A server on this machine that remembers what it was sent. */
async function receiver(t: TestContext, answer: () => Answer): Promise<Receiver> {
  const deliveries: Delivery[] = [];
  const server: Server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      deliveries.push({ path: request.url ?? "", headers: request.headers, body });
      const { status, location } = answer();
      response.writeHead(status, location === undefined ? {} : { location }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return { url: `http://127.0.0.1:${address.port}`, port: address.port, deliveries };
}

const open: Options = {
  settings: { webhookAllowPrivateNetworks: true, webhookHmacSecret: "s3cret", timezone: "UTC" },
};

const insideHosts = [
  ...["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0.0.0.0"],
  ...["0x7f.1", "127.1", "[::]", "10.0.0.1", "169.254.169.254", "[2001::1]"],
  ...["[2002:7f00:1::]", "[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[fec0::1]", "[::127.0.0.1]"],
];

/** A server that posts to no private address, with a leased task from a time when it did. */
async function createdWhenAllowed(t: TestContext, webhook: string) {
  const before = await setup(t, open);
  const id = await before.leased({ webhook });
  await before.stop();
  const server = await before.world.start({ webhookAllowPrivateNetworks: false });
  return { server, id };
}

async function finished(server: RunningServer, outcome: "success" | "failure"): Promise<void> {
  const labels = `kind="task_result",command="render",outcome="${outcome}"`;
  const series = new RegExp(`^codeq_webhook_deliveries_total\\{${labels}\\} [1-9]`, "im");
  await until(async () => series.test((await server.ask("/metrics", {})).text));
}

/** A server whose webhooks get the given answers; undefined is no answer at all. */
async function scripted(t: TestContext, answers: (number | undefined)[], options: Options = {}) {
  const atMs: number[] = [];
  const server = await setup(t, {
    ...options,
    post: () => {
      atMs.push(server.clock.nowMs() - startMs);
      return Promise.resolve(answers.shift());
    },
  });
  return { server, atMs };
}

const webhook = { webhook: "http://a.example/hook" };

test("a webhook carries every key, its signature and the trace of the task", async (t) => {
  const hook = await receiver(t, () => ({ status: 200 }));
  const server = await setup(t, open);
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  const { json } = await server.ask("/v1/codeq/tasks", {
    method: "POST",
    caller: "producer-acme",
    headers: { traceparent, tracestate: "k=v" },
    body: { command: "Render", payload: 1, webhook: `${hook.url}/done?x=1` },
  });
  await server.claim();
  const result = '{"status":"COMPLETED","result":{ "n": 12345678901234567890 }}';
  await server.post(`/tasks/${json.id}/result`, result, "worker-acme");
  await server.clock.advance(1);
  await finished(server, "success");
  const [delivery] = hook.deliveries;
  assert.equal(hook.deliveries.length, 1);
  assert.equal(delivery?.path, "/done?x=1");
  assert.equal(
    delivery?.body,
    `{"taskId":"${json.id}","eventType":"Render","status":"COMPLETED",` +
      `"result":{ "n": 12345678901234567890 },"error":"","artifacts":[],` +
      `"completedAt":"2026-01-02T03:04:05.12Z"}`,
  );
  const { headers } = delivery;
  assert.equal(headers["content-type"], "application/json");
  assert.equal(headers["traceparent"], traceparent);
  assert.equal(headers["tracestate"], "k=v");
  const timestamp = headers["x-codeq-timestamp"];
  assert.equal(timestamp, String(Math.floor(startMs / 1000)));
  const signature = createHmac("sha256", "s3cret").update(`${timestamp}.${delivery.body}`);
  assert.equal(headers["x-codeq-signature"], signature.digest("hex"));
});

test("both secrets of a tenant sign, every try anew, and a receiver can verify either", async (t) => {
  const secretOf = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString("base64")}`;
  const [newer, older, others] = [secretOf(1), secretOf(2), secretOf(3)];
  const tenants = new Map([["acme", [newer, older]]]);
  const statuses = [500, 200];
  const hook = await receiver(t, () => ({ status: statuses.shift() ?? 200 }));
  const webhookSecrets = { default: [others], tenants };
  const server = await setup(t, { settings: { ...open.settings, webhookSecrets } });
  const id = await server.leased({ webhook: hook.url });
  await server.complete(id);
  await server.clock.advance(1);
  await until(() => hook.deliveries.length === 1);
  await until(async () => {
    await server.clock.advance(1000);
    return hook.deliveries.length === 2;
  });
  const ids = hook.deliveries.map(({ headers }) => headers["webhook-id"]);
  assert.match(ids[0] as string, new RegExp(`^msg_${id}_[0-9a-z]+$`));
  assert.equal(ids[1], ids[0]);
  for (const { body, headers } of hook.deliveries) {
    const nowMs = Number(headers["webhook-timestamp"]) * 1000;
    for (const secret of [newer, older]) {
      assert.equal(verifyWebhook({ body, headers }, { secret, nowMs }).taskId, id);
    }
    assert.throws(() => verifyWebhook({ body, headers }, { secret: others, nowMs }), {
      code: "webhook_refused",
    });
  }
  const [first, second] = hook.deliveries.map(({ headers }) =>
    Number(headers["webhook-timestamp"]),
  );
  assert.ok((second ?? 0) > (first ?? 0));
});

test("a failed and a buried task call back with their error and no result", async (t) => {
  const hook = await receiver(t, () => ({ status: 204 }));
  const server = await setup(t, open);
  const id = await server.leased({ webhook: hook.url });
  await server.post(`/tasks/${id}/result`, { status: "FAILED", error: 'a "b"' }, "worker-acme");
  await server.clock.advance(1);
  await until(() => hook.deliveries.length === 1);
  await server.buried({ webhook: hook.url });
  await server.clock.advance(1);
  await until(() => hook.deliveries.length === 2);
  const bodies = hook.deliveries.map(({ body }) => JSON.parse(body));
  const keys = ["taskId", "eventType", "status", "result", "error", "artifacts", "completedAt"];
  for (const body of bodies) assert.deepEqual(Object.keys(body), keys);
  assert.deepEqual(
    bodies.map(({ status, result, error, artifacts }) => [status, result, error, artifacts]),
    [
      ["FAILED", null, 'a "b"', []],
      ["FAILED", null, "broken", []],
    ],
  );
});

test("without a secret there is no signature", async (t) => {
  const hook = await receiver(t, () => ({ status: 200 }));
  const server = await setup(t, { settings: { webhookAllowPrivateNetworks: true } });
  await server.complete(await server.leased({ webhook: hook.url }));
  await server.clock.advance(1);
  await until(() => hook.deliveries.length === 1);
  const headers = Object.keys(hook.deliveries[0]?.headers ?? {});
  assert.deepEqual(
    headers.filter((name) => name.startsWith("x-codeq")),
    [],
  );
});

test("a batch of results calls back for each task", async (t) => {
  const { server, atMs } = await scripted(t, [200, 200]);
  const ids = [await server.leased(webhook), await server.leased(webhook)];
  const results = ids.map((taskId) => ({ taskId, status: "COMPLETED", result: {} }));
  await server.post("/tasks/batch/results", { results }, "worker-acme");
  await server.clock.advance(1);
  assert.equal(atMs.length, 2);
});

test("a task without a webhook calls nobody", async (t) => {
  const { server, atMs } = await scripted(t, []);
  await server.complete(await server.leased());
  await server.clock.advance(5000);
  assert.deepEqual(atMs, []);
  assert.equal(
    [...(await server.dump()).keys()].some((key) => key.includes("/webhook/")),
    false,
  );
});

test("a failed webhook is tried again with growing waits and given up after the last", async (t) => {
  const { server, atMs } = await scripted(t, [500, undefined, 302, 429, 503, 200]);
  await server.complete(await server.leased(webhook));
  await server.clock.advance(120_000);
  assert.deepEqual(atMs, [0, 2000, 6000, 14_000, 30_000]);
  assert.equal(
    [...(await server.dump()).keys()].some((key) => key.includes("/webhook/")),
    false,
  );
});

test("a task with a webhook to a private address is refused with the setting that allows it", async (t) => {
  const server = await setup(t);
  for (const host of insideHosts) {
    const task = { command: "render", payload: {}, webhook: `http://${host}:1/` };
    const reply = await server.post("/tasks", task, "producer-acme");
    assert.equal(reply.status, 400, host);
    const why = /^invalid webhook url: .+ is a loopback or private address; set webhookAllowPr/;
    assert.match(reply.json.error, why, host);
  }
});

test("a webhook to a name that resolves to a private address is given up at once, and the task says why", async (t) => {
  const { server, id } = await createdWhenAllowed(t, "http://localhost:1/hook");
  await server.complete(id);
  await server.clock.advance(1);
  await finished(server, "failure");
  const deliveries = (await server.get(`/admin/tasks/${id}/deliveries`, "admin-acme")).json;
  assert.equal(deliveries.state, "failed");
  assert.match(deliveries.error, /^localhost is a loopback or private address; set webhookAllowPr/);
});

test("the wait between two tries has a ceiling", async (t) => {
  const settings = { resultWebhookMaxBackoffSeconds: 5, resultWebhookMaxAttempts: 6 };
  const { server, atMs } = await scripted(t, [], { settings });
  await server.complete(await server.leased(webhook));
  await server.clock.advance(120_000);
  assert.deepEqual(atMs, [0, 2000, 6000, 11_000, 16_000, 21_000]);
});

test("a receiver that says the request is wrong is not asked again", async (t) => {
  for (const status of [400, 401, 404, 410, 422]) {
    const { server, atMs } = await scripted(t, [status, 200]);
    await server.complete(await server.leased(webhook));
    await server.clock.advance(120_000);
    assert.deepEqual(atMs, [0], String(status));
  }
  for (const status of [408, 425, 429]) {
    const { server, atMs } = await scripted(t, [status, 200]);
    await server.complete(await server.leased(webhook));
    await server.clock.advance(120_000);
    assert.deepEqual(atMs, [0, 2000], String(status));
  }
});

test("W1: a webhook that is due or waits for its next try survives a restart", async (t) => {
  const answers: (number | undefined)[] = [500];
  const { server, atMs } = await scripted(t, answers);
  await server.complete(await server.leased(webhook));
  await server.clock.advance(1);
  assert.deepEqual(atMs, [0]);
  const after = await server.restart();
  t.after(() => after.stop());
  answers.push(200);
  await after.clock.advance(1998);
  assert.deepEqual(atMs, [0]);
  await after.clock.advance(1);
  assert.deepEqual(atMs, [0, 2000]);
  assert.equal(
    [...(await after.dump()).keys()].some((key) => key.includes("/webhook/")),
    false,
  );
});

test("W1: a process that dies during a webhook sends it again", async (t) => {
  const never = new Promise<undefined>(() => {});
  const posts: string[] = [];
  const server = await setup(t, {
    storage: "sim-disk",
    post: (task) => {
      posts.push(task.id);
      return posts.length === 1 ? never : Promise.resolve(200);
    },
  });
  const id = await server.leased(webhook);
  await server.complete(id);
  await server.clock.advance(1);
  assert.deepEqual(posts, [id]);
  server.world.crash("power");
  const after = await server.world.start();
  t.after(() => after.stop());
  await after.clock.advance(1);
  assert.deepEqual(posts, [id, id]);
});

test("a slow receiver holds up nobody else", async (t) => {
  const never = new Promise<undefined>(() => {});
  const posts: string[] = [];
  const server = await setup(t, {
    post: (task) => {
      posts.push(task.command);
      return task.command === "slow" ? never : Promise.resolve(200);
    },
  });
  for (const command of ["slow", "fast"]) {
    await server.complete(await server.leased({ command, ...webhook }));
    await server.clock.advance(1);
  }
  assert.deepEqual(posts, ["slow", "fast"]);
  const stopped = server.stop();
  await server.clock.advance(1000);
  await stopped;
});

test("a redirect is not followed", async (t) => {
  const hook = await receiver(t, () => ({ status: 307, location: "/elsewhere" }));
  const settings = { ...open.settings, resultWebhookMaxAttempts: 1 };
  const server = await setup(t, { settings });
  await server.complete(await server.leased({ webhook: `${hook.url}/hook` }));
  await server.clock.advance(1);
  await finished(server, "failure");
  assert.deepEqual(
    hook.deliveries.map(({ path }) => path),
    ["/hook"],
  );
});

test("S5: addresses inside the network are not called unless that is allowed", async (t) => {
  const hook = await receiver(t, () => ({ status: 200 }));
  for (const host of insideHosts) {
    const { server, id } = await createdWhenAllowed(t, `http://${host}:${hook.port}/`);
    await server.complete(id);
    await server.clock.advance(1);
    await finished(server, "failure");
    assert.equal(hook.deliveries.length, 0, host);
    await server.stop();
  }
  const server = await setup(t, open);
  await server.complete(await server.leased({ webhook: `http://localhost:${hook.port}/` }));
  await server.clock.advance(1);
  await finished(server, "success");
});

/** Tasks that ended, of one tenant, whose results go to the URL. */
async function finish(
  server: RunningServer,
  {
    webhook,
    count,
    tenant,
  }: {
    webhook: string | ((n: number) => string);
    count: number;
    tenant: "acme" | "globex";
  },
): Promise<void> {
  const urlOf = typeof webhook === "string" ? () => webhook : webhook;
  for (let left = count; left > 0; ) {
    const tasks = Array.from({ length: Math.min(left, 1000) }, (_, n) => ({
      ...{ command: `of-${tenant}`, payload: 1, webhook: urlOf(left - n) },
    }));
    left -= tasks.length;
    const created = await server.post("/tasks/batch", { tasks }, `producer-${tenant}`);
    assert.equal(created.status, 200, created.text);
  }
  for (let left = count; left > 0; ) {
    const claim = { commands: [`of-${tenant}`], count: 256 };
    const { json } = await server.post("/tasks/claim/batch", claim, `worker-${tenant}`);
    const results = json.tasks.map(({ id }: { id: string }) => ({
      ...{ taskId: id, status: "COMPLETED", result: {} },
    }));
    left -= results.length;
    await server.post("/tasks/batch/results", { results }, `worker-${tenant}`);
  }
}

async function webhookKeys(server: RunningServer): Promise<string[]> {
  return [...(await server.dump()).keys()].filter((key) => key.startsWith("codeq/webhook/"));
}

test("a webhook that cannot be sent counts its tries, is given up and hides no other", async (t) => {
  const sent: string[] = [];
  let thrown = 0;
  const server = await setup(t, {
    post: ({ webhook: url, command }) => {
      if (!url.startsWith("https://broken.example")) {
        sent.push(command);
        return Promise.resolve(200);
      }
      thrown += 1;
      throw new URIError("URI malformed");
    },
  });
  await finish(server, { webhook: "https://broken.example/", count: 140, tenant: "acme" });
  await finish(server, { webhook: "https://good.example/", count: 1, tenant: "acme" });
  await finish(server, { webhook: "https://good.example/", count: 1, tenant: "globex" });
  await server.clock.advance(1);
  assert.deepEqual(sent.sort(), ["of-acme", "of-globex"]);
  await server.clock.advance(600_000);
  assert.deepEqual(await webhookKeys(server), []);
  assert.ok(thrown <= 140 * 5, `${thrown} tries`);
  const warnings = server.lines.filter((line) => line.includes('"level":"warn"'));
  assert.ok(warnings.length < 100, `${warnings.length} warnings`);
  const labels = 'kind="task_result",command="of-acme",outcome="failure"';
  assert.equal(await server.metric(`codeq_webhook_deliveries_total{${labels}}`), 140);
});

test(
  "S29: 10,000 webhooks to an endpoint that is silent hold up nobody else",
  onlyWith.webhooks,
  async (t) => {
    const sockets = new Set<Socket>();
    const silent = createTcpServer((socket) => {
      sockets.add(socket.on("error", () => {}));
    });
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      silent.close();
      for (const socket of sockets) socket.destroy();
    });
    const { port } = silent.address() as AddressInfo;
    const hook = await receiver(t, () => ({ status: 200 }));
    const server = await setup(t, { ...open, settings: { ...open.settings } });
    await finish(server, { webhook: `http://127.0.0.1:${port}/`, count: 10_000, tenant: "acme" });
    await server.clock.advance(1);
    await until(() => sockets.size > 0);
    const startedMs = server.clock.monotonicMs();
    await finish(server, { webhook: hook.url, count: 20, tenant: "globex" });
    // Another endpoint of the same tenant is not held up either.
    await finish(server, { webhook: `${hook.url}/same-tenant`, count: 20, tenant: "acme" });
    await until(async () => {
      await server.clock.advance(1);
      return hook.deliveries.length === 40;
    });
    assert.ok(server.clock.monotonicMs() - startedMs < 1000);
    assert.ok(sockets.size <= 4, `${sockets.size} connections to the silent endpoint`);
    const stopped = server.stop();
    await server.clock.advance(1000);
    await stopped;
  },
);

test("webhooks wait for an endpoint that comes back, and are given up when it does not", async (t) => {
  let answer: number | undefined;
  const sent: string[] = [];
  const server = await setup(t, {
    post: async ({ id }) => {
      if (answer !== undefined) sent.push(id);
      return answer;
    },
  });
  await finish(server, { webhook: "https://a.example/", count: 500, tenant: "acme" });
  await server.clock.advance(20_000);
  answer = 200;
  await server.clock.advance(60_000);
  assert.equal(new Set(sent).size, 500);
  answer = undefined;
  await finish(server, { webhook: "https://a.example/", count: 500, tenant: "acme" });
  await server.clock.advance(600_000);
  assert.deepEqual(await webhookKeys(server), []);
  const failed = 'kind="task_result",command="of-acme",outcome="failure"';
  assert.equal(await server.metric(`codeq_webhook_deliveries_total{${failed}}`), 500);
});

test("more endpoints of a tenant than fit into memory get their webhooks all the same, once", async (t) => {
  const count = 4300;
  const sent: string[] = [];
  let isAnswering = false;
  const server = await setup(t, {
    post: async ({ webhook: url, command }) => {
      if (command === "of-acme") await until(() => isAnswering);
      sent.push(url);
      return 200;
    },
  });
  await finish(server, { webhook: (n) => `https://h${n}.example/`, count, tenant: "acme" });
  await server.clock.advance(1000);
  assert.deepEqual(sent, []);
  await finish(server, { webhook: "https://other.example/", count: 1, tenant: "globex" });
  await server.clock.advance(1);
  assert.deepEqual(sent, ["https://other.example/"]);
  isAnswering = true;
  await until(async () => {
    await server.clock.advance(1);
    return sent.length > count;
  });
  assert.equal(new Set(sent).size, count + 1);
  await until(async () => {
    await server.clock.advance(1);
    return (await webhookKeys(server)).length === 0;
  });
  assert.equal(sent.length, count + 1);
});
