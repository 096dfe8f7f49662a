/**
 * A trace from the producer over a retry to the worker and the webhook, as a collector receives it from a
 * real server, and what a collector that is gone costs.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { type TestContext, test } from "node:test";
import { codeq, task } from "@codeq/client";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { ApiClient } from "./api-client.ts";
import {
  type CollectedMetric,
  type CollectedSpan,
  collectGrpc,
  collectHttp,
  type ListeningCollector,
} from "./otlp-collector.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "./server-process.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const producerSpan = "00f067aa0ba902b7";
const workerStream = "/workerpb.WorkerStream/Stream";

async function start(t: TestContext, env: Record<string, string>): Promise<ServerProcess> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const server = await startServer({
    dataDir: directory.path,
    env: { TRACING_ENABLED: "true", CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true", ...env },
  });
  t.after(() => server.kill());
  return server;
}

/** A receiver of webhooks, and the headers of the first that came. */
async function receiver(
  t: TestContext,
): Promise<{ readonly url: string; readonly received: Promise<IncomingHttpHeaders> }> {
  const { promise: received, resolve } = Promise.withResolvers<IncomingHttpHeaders>();
  const server = createServer((request, response) => {
    request.resume();
    resolve(request.headers);
    response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/done`, received };
}

async function post(server: ServerProcess, path: string, body: object): Promise<{ id: string }> {
  const response = await fetch(`http://127.0.0.1:${server.port}/v1/codeq${path}`, {
    method: "POST",
    headers: {
      authorization: "Bearer dev-token",
      traceparent: `00-${traceId}-${producerSpan}-01`,
    },
    body: JSON.stringify(body),
  });
  assert.ok(response.ok, `${path}: ${response.status} ${await response.clone().text()}`);
  return (await response.json()) as { id: string };
}

/** Create, claim, nack, claim again, complete. */
async function runTask(server: ServerProcess, webhook: string): Promise<string> {
  const { id } = await post(server, "/tasks", { command: "render", payload: 1, webhook });
  const claim = { commands: ["render"], waitSeconds: 20 };
  await post(server, "/tasks/claim", claim);
  await post(server, `/tasks/${id}/nack`, { delaySeconds: 1, reason: "jam" });
  assert.equal((await post(server, "/tasks/claim", claim)).id, id);
  await post(server, `/tasks/${id}/result`, { status: "COMPLETED", result: {} });
  return id;
}

const steps = [
  "codeq.task.create",
  "codeq.task.claim",
  "codeq.task.nack",
  "codeq.task.promote",
  "codeq.task.claim",
  "codeq.task.submit_result",
  "codeq.webhook.task_result",
];

function stepsIn(spans: readonly CollectedSpan[]): CollectedSpan[] {
  return spans
    .filter(({ attributes }) => attributes.has("codeq.task_id"))
    .sort(
      (a, b) => Number(a.startNano - b.startNano) || steps.indexOf(a.name) - steps.indexOf(b.name),
    );
}

async function assertTraced(
  t: TestContext,
  { collector, endpoint }: ListeningCollector,
  env: Record<string, string>,
): Promise<void> {
  const server = await start(t, { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...env });
  const { url, received } = await receiver(t);
  const subscriber = await receiver(t);
  const subscription = { callbackUrl: subscriber.url, eventTypes: ["render"] };
  await post(server, "/workers/subscriptions", subscription);
  const id = await runTask(server, url);
  const { traceparent } = await received;
  const told = await subscriber.received;
  await collector.until((spans) => stepsIn(spans).length >= steps.length);
  const found = stepsIn(collector.spans);
  assert.deepEqual(found.map(({ name }) => name).sort(), [...steps].sort());
  for (const span of found) {
    assert.equal(span.traceId, traceId);
    assert.equal(span.parentSpanId, producerSpan);
    assert.equal(span.attributes.get("codeq.task_id"), id);
    assert.equal(span.attributes.get("codeq.command"), "render");
    assert.equal(span.resource.get("service.name"), "test queue");
    assert.equal(span.resource.get("region"), "eu");
    assert.ok(span.endNano >= span.startNano, span.name);
  }
  const webhook = found.find(({ name }) => name === "codeq.webhook.task_result");
  assert.equal(traceparent, `00-${traceId}-${webhook?.spanId}-01`);
  assert.equal(webhook?.attributes.get("http.status_code"), 200);
  const isNotice = ({ name }: CollectedSpan): boolean => name === "codeq.webhook.queue_ready";
  await collector.until((spans) => spans.some(isNotice));
  const notice = collector.spans.find(isNotice);
  assert.equal(notice?.tracer, "codeq/notifier");
  assert.equal(told["traceparent"], `00-${notice?.traceId}-${notice?.spanId}-01`);
  await collector.until((spans) => spans.some(({ name }) => name.endsWith("/nack")));
  const http = collector.spans.find(({ name }) => name === "HTTP POST /v1/codeq/tasks");
  assert.equal(http?.tracer, "test queue/http");
  assert.equal(http?.attributes.get("http.status_code"), 202);
  assert.equal(http?.parentSpanId, producerSpan);
  for (const headers of collector.headers) assert.equal(headers["x-key"], "hush");
}

const common = {
  OTEL_SERVICE_NAME: "test queue",
  OTEL_RESOURCE_ATTRIBUTES: "region=eu",
  OTEL_EXPORTER_OTLP_HEADERS: "x-key=hush",
};

test("a trace goes from the producer over a retry to the webhook, over HTTP", async (t) => {
  await assertTraced(t, await collectHttp(t), {
    ...common,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
  });
});

test("the same over gRPC", async (t) => {
  await assertTraced(t, await collectGrpc(t), { ...common, TRACING_OTLP_INSECURE: "true" });
});

test("the same with three shards, which export by themselves", async (t) => {
  const listening = await collectHttp(t);
  await assertTraced(t, listening, {
    ...common,
    CODEQ_SHARDS: "3",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
  });
  const shards = new Set(
    stepsIn(listening.collector.spans).map(({ resource }) => resource.get("codeq.shard")),
  );
  assert.equal(shards.size, 1);
  assert.match(String([...shards][0]), /^[012]$/);
});

test("a stream is one span, from its beginning to its end", async (t) => {
  const { collector, endpoint } = await collectHttp(t);
  const server = await start(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
  });
  const same = (bytes: Buffer): Buffer => bytes;
  const address = `127.0.0.1:${server.workerStreamPort}`;
  const client = new Client(address, credentials.createInsecure());
  t.after(() => client.close());
  const metadata = new Metadata();
  metadata.set("traceparent", `00-${traceId}-${producerSpan}-01`);
  const call = client.makeBidiStreamRequest(workerStream, same, same, metadata);
  call.resume();
  call.end();
  await once(call, "end");
  await collector.until((spans) => spans.length > 0);
  const [span] = collector.spans;
  assert.equal(span?.name, workerStream.slice(1));
  assert.equal(span?.tracer, "codeq/grpc");
  assert.equal(span?.traceId, traceId);
  assert.equal(span?.parentSpanId, producerSpan);
  assert.equal(span?.attributes.get("codeq.stream.ended"), "ended");
});

test("refused creations and results are spans with an error, over HTTP and over streams", async (t) => {
  const { collector, endpoint } = await collectHttp(t);
  const server = await start(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
  });
  const nobody = "0190b2a4-7c00-7000-8000-0123456789ab";
  const wrong = { command: "no name", payload: 1 };
  const result = { status: "COMPLETED", result: {} };
  for (const [path, body] of [
    ["/tasks", wrong],
    ["/tasks/batch", { tasks: [wrong] }],
    [`/tasks/${nobody}/result`, result],
    ["/tasks/batch/results", { results: [{ taskId: nobody, ...result }] }],
  ] as const) {
    await fetch(`http://127.0.0.1:${server.port}/v1/codeq${path}`, {
      method: "POST",
      headers: { authorization: "Bearer dev-token" },
      body: JSON.stringify(body),
    });
  }
  // The library enqueues over a stream.
  await using client = codeq({ url: server.url, token: "dev-token" });
  const render = task("render");
  await client.enqueue(render, 1, { idempotencyKey: "once" });
  await assert.rejects(client.enqueue(render, 2, { idempotencyKey: "once" }));
  const named = (name: string) => collector.spans.filter((span) => span.name === name);
  await collector.until(
    () => named("codeq.task.create").length >= 4 && named("codeq.task.submit_result").length >= 2,
  );
  const creations = named("codeq.task.create").filter(({ isError }) => isError);
  assert.equal(creations.length, 3);
  for (const span of [...creations, ...named("codeq.task.submit_result")]) {
    assert.equal(span.isError, true, span.name);
    assert.ok(span.attributes.get("codeq.refusal"), span.name);
  }
  const refused = named("HTTP POST /v1/codeq/tasks")[0];
  assert.equal(refused?.attributes.get("http.status_code"), 400);
  assert.equal(refused?.isError, true);
});

/** A port on which connections are taken and nothing is answered. */
async function silentPort(t: TestContext): Promise<number> {
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    t.after(() => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function spansLost(api: ApiClient): Promise<number> {
  for (;;) {
    const { text } = await api.page("/metrics");
    const lost = Number(/^codeq_spans_total\{outcome="lost"\} (\d+)$/m.exec(text)?.[1] ?? 0);
    if (lost > 0) return lost;
  }
}

test("a collector that is gone costs its spans, which are counted, and nothing else", async (t) => {
  const server = await start(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    OTEL_EXPORTER_OTLP_TIMEOUT: "500",
  });
  const { url, received } = await receiver(t);
  await runTask(server, url);
  await received;
  const api = new ApiClient(server.port, 1);
  t.after(() => api.close());
  assert.ok((await spansLost(api)) > 0);
  assert.match(server.stdout, /"spans were lost"/);
  server.process.kill("SIGTERM");
  assert.equal((await server.exited).code, 0);
});

test("a collector that is silent does not hold up the end of the server", async (t) => {
  const server = await start(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await silentPort(t)}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    OTEL_EXPORTER_OTLP_TIMEOUT: "600000",
  });
  const { url, received } = await receiver(t);
  await runTask(server, url);
  await received;
  server.process.kill("SIGTERM");
  assert.equal((await server.exited).code, 0);
});

for (const [protocol, collect] of [
  ["http/protobuf", collectHttp],
  ["grpc", collectGrpc],
] as const) {
  test(`measurements reach a collector over ${protocol}, with the names of /metrics`, async (t) => {
    const { collector, endpoint } = await collect(t);
    const server = await start(t, {
      TRACING_ENABLED: "false",
      CODEQ_METRICS_OTLP_ENABLED: "true",
      CODEQ_METRICS_OTLP_INTERVAL_SECONDS: "1",
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
      OTEL_EXPORTER_OTLP_INSECURE: "true",
    });
    await post(server, "/tasks", { command: "render", payload: 1 });
    const created = (metrics: readonly CollectedMetric[]): number | undefined =>
      metrics
        .find(({ name }) => name === "codeq_task_created_total")
        ?.sum?.dataPoints.find(({ attributes }) => attributes?.[0]?.value.stringValue === "render")
        ?.asDouble;
    await collector.untilMetrics((metrics) => created(metrics) === 1);
    const names = new Set(collector.metrics.map(({ name }) => name));
    const scraped = await (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text();
    const types = [...scraped.matchAll(/^# TYPE (\S+)/gm)].map(([, name = ""]) => name);
    for (const name of types) assert.ok(names.has(name), name);
    const [point] = collector.metrics.flatMap(({ histogram }) => histogram?.dataPoints ?? []);
    const { explicitBounds = [], bucketCounts = [] } = point ?? {};
    assert.equal(bucketCounts.length, explicitBounds.length + 1);
  });
}
