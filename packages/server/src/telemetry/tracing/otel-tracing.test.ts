import assert from "node:assert/strict";
import { test } from "node:test";
import { type Cause, type Change, changeOf, type Task, type TaskId } from "@codeq/queue";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import { SimClock } from "../../../../simulated/src/index.ts";
import {
  BrokerWorld,
  claim,
  enqueue,
  nack,
  owned,
  submit,
  success,
} from "../../../test/broker-world.ts";
import { settingTable } from "../../config/setting-table.ts";
import { createLogger } from "../logger.ts";
import { createMetrics } from "../metrics.ts";
import { OtelTracing } from "./otel-tracing.ts";
import type { TracingConfig } from "./tracing.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const producerSpan = "00f067aa0ba902b7";
const sampled = `00-${traceId}-${producerSpan}-01`;
const notSampled = `00-${traceId}-${producerSpan}-00`;

function setup(settings: Partial<TracingConfig> = {}, clock: SimClock = new SimClock()) {
  const initial = Object.fromEntries(
    Object.entries(settingTable).map(([name, row]) => [name, row.initial]),
  ) as unknown as TracingConfig;
  const exported: ReadableSpan[] = [];
  const exporter: SpanExporter = {
    export: (batch, done) => {
      exported.push(...batch);
      done({ code: 0 });
    },
    shutdown: () => Promise.resolve(),
  };
  const metrics = createMetrics({ commandsMax: 5 });
  const logger = createLogger({
    level: "error",
    format: "json",
    write: assert.fail,
    nowMs: () => clock.nowMs(),
  });
  const config = { ...initial, ...settings };
  const tracing = new OtelTracing({ config, clock, logger, metrics }, exporter);
  /** What has been exported, once all of it has. */
  const spans = async (): Promise<ReadableSpan[]> => {
    await clock.advance(2000);
    return exported;
  };
  return { tracing, clock, metrics, spans };
}

/** The life of a task, told to a tracing, with one retry. */
async function lifeOf(traceParent: string, settings: Partial<TracingConfig> = {}) {
  const world = new BrokerWorld();
  const { tracing, spans } = setup(settings, world.clock);
  world.observe = (change) => tracing.changed(change);
  const broker = await world.open();
  const task = await enqueue(broker, { traceParent, priority: 3, maxAttempts: 3 });
  await claim(broker);
  await nack(broker, owned(task), { delaySeconds: 0, reason: "jam" }).done;
  await world.clock.advance(5000);
  const due = broker.delayed.first();
  if (due?.id !== undefined) {
    broker.delayed.drop(due);
    await broker.promote([{ id: due.id, number: due.dueMs }]);
  }
  await claim(broker);
  await submit(broker, owned(task), success).done;
  return { task, spans: await spans() };
}

const names = [
  "codeq.task.create",
  "codeq.task.claim",
  "codeq.task.nack",
  "codeq.task.promote",
  "codeq.task.claim",
  "codeq.task.submit_result",
];

test("every step of a task is a child of the context that its producer sent", async () => {
  const { task, spans } = await lifeOf(sampled);
  assert.deepEqual(
    spans.map(({ name }) => name),
    names,
  );
  for (const span of spans) {
    assert.equal(span.spanContext().traceId, traceId, span.name);
    assert.equal(span.parentSpanContext?.spanId, producerSpan, span.name);
    assert.equal(span.attributes["codeq.task_id"], task.id);
    assert.equal(span.attributes["codeq.tenant_id"], "acme");
    assert.equal(span.attributes["codeq.command"], "work");
  }
  const [create, claimed, nacked, , , submitted] = spans;
  assert.equal(create?.kind, SpanKind.PRODUCER);
  assert.equal(create?.attributes["codeq.priority"], 3);
  assert.equal(create?.attributes["codeq.has_webhook"], false);
  assert.equal(claimed?.attributes["codeq.worker_id"], "worker-1");
  assert.equal(claimed?.attributes["codeq.lease_seconds"], 60);
  assert.equal(nacked?.attributes["codeq.reason"], "jam");
  assert.equal(nacked?.attributes["codeq.delay_seconds"], 5);
  assert.equal(submitted?.attributes["codeq.submit.status"], "COMPLETED");
});

test("what administrators do to a task, and files that it gets, are spans of its trace", async () => {
  const world = new BrokerWorld();
  const { tracing, spans } = setup({}, world.clock);
  world.observe = (change) => tracing.changed(change);
  const broker = await world.open();
  const first = await enqueue(broker, { traceParent: sampled, maxAttempts: 1 });
  const of = { tenantId: first.tenantId, id: first.id };
  await claim(broker);
  const file = { name: "a", url: "/a", bytes: 7, sha256: "h", contentType: "text/plain" };
  assert.equal((await broker.attach(owned(first), file)).ok, true);
  await nack(broker, owned(first), { delaySeconds: 0, reason: "jam" }).done;
  assert.equal((await broker.act(of, { kind: "replay" })).ok, true);
  assert.equal((await broker.act(of, { kind: "cancel", graceMs: 0 })).ok, true);
  const found = await spans();
  assert.deepEqual(
    found.map(({ name }) => name.replace("codeq.task.", "")),
    ["create", "claim", "attach", "nack", "replay", "cancel"],
  );
  const [, , attached, , replayed, cancelled] = found;
  assert.equal(attached?.attributes["codeq.artifact.bytes"], 7);
  assert.equal(replayed?.attributes["codeq.replays"], 1);
  assert.equal(cancelled?.attributes["codeq.ended"], true);
  for (const span of found) assert.equal(span.parentSpanContext?.spanId, producerSpan);
});

test("a producer that decided not to keep its trace is followed", async () => {
  assert.deepEqual((await lifeOf(notSampled)).spans, []);
});

test("without a context all spans of a task are one trace, whose id is that of the task", async () => {
  const { task, spans } = await lifeOf("");
  const own = task.id.replaceAll("-", "");
  assert.deepEqual(
    spans.map(({ name }) => name),
    names,
  );
  for (const span of spans) assert.equal(span.spanContext().traceId, own);
  const [create, ...others] = spans;
  assert.equal(create?.parentSpanContext, undefined);
  for (const { parentSpanContext } of others) {
    assert.equal(parentSpanContext?.spanId, create?.spanContext().spanId);
  }
  const ids = new Set(spans.map((span) => span.spanContext().spanId));
  assert.equal(ids.size, spans.length);
});

test("a ratio keeps about its share of the tasks, each with all of its spans or none", async () => {
  const { tracing, spans } = setup({ tracingSampleRatio: 0.25 });
  const causes: readonly Cause[] = ["created", "claimed"];
  for (let n = 0; n < 800; n += 1) {
    const random = Math.imul(n + 1, 0x9e3779b1) >>> 0;
    const id = `01991e2f-0000-7abc-9def-${random.toString(16).padStart(8, "0")}0000`;
    for (const because of causes) tracing.changed(changeWith({ id: id as TaskId }, because));
  }
  const perTrace = new Map<string, number>();
  for (const span of await spans()) {
    const { traceId: of } = span.spanContext();
    perTrace.set(of, (perTrace.get(of) ?? 0) + 1);
  }
  assert.ok(perTrace.size > 100 && perTrace.size < 300, `${perTrace.size}`);
  assert.deepEqual([...new Set(perTrace.values())], [2]);
});

test("at ratio 0 only what callers keep is kept", async () => {
  const { tracing, spans } = setup({ tracingSampleRatio: 0 });
  tracing.changed(changeWith({}, "created"));
  tracing.requested(answered, { path: "/", headers: {} });
  tracing.changed(changeWith({ traceParent: sampled }, "created"));
  tracing.requested(answered, { path: "/", headers: { traceparent: sampled } });
  assert.equal((await spans()).length, 2);
});

const answered = { method: "POST", route: "/v1/codeq/tasks", status: 202, ms: 12 };

test("a request is a span of the server with what was asked and answered", async () => {
  const { tracing, spans, clock } = setup();
  const endMs = clock.nowMs();
  const headers = { host: "queue:8080", traceparent: sampled, tracestate: "v=1" };
  tracing.requested(answered, { path: "/v1/codeq/tasks?x=1", headers });
  tracing.requested({ ...answered, status: 503 }, { path: "/", headers });
  const [span, failed] = await spans();
  assert.equal(span?.name, "HTTP POST /v1/codeq/tasks");
  assert.equal(span?.kind, SpanKind.SERVER);
  assert.equal(span?.parentSpanContext?.spanId, producerSpan);
  assert.deepEqual(span?.attributes, {
    "http.method": "POST",
    "http.path": "/v1/codeq/tasks",
    "http.host": "queue:8080",
    "http.route": "/v1/codeq/tasks",
    "http.status_code": 202,
  });
  const startMs = (span?.startTime[0] ?? 0) * 1000 + (span?.startTime[1] ?? 0) / 1e6;
  assert.equal(Math.round(startMs), endMs - 12);
  assert.equal(span?.status.code, 0);
  assert.equal(failed?.status.code, 2);
});

test("a refused creation is an error in the trace of its producer, a refused result in that of its task", async () => {
  const { tracing, spans } = setup();
  const tenantId = "acme";
  tracing.refused({
    ...{ because: "created", code: "invalid_command", tenantId, command: "no name" },
    ...{ traceParent: sampled, traceState: "" },
  });
  const taskId = "0190b2a4-7c00-7000-8000-0123456789ab" as TaskId;
  const of = { because: "finished", code: "not_owner", tenantId, workerId: "w1" } as const;
  const without = { traceParent: undefined, traceState: undefined };
  tracing.refused({ ...of, ...without, taskId });
  tracing.refused({ ...of, ...without, taskId: "no id" as TaskId });
  const [creation, result, other] = await spans();
  assert.equal(creation?.name, "codeq.task.create");
  assert.equal(creation?.parentSpanContext?.spanId, producerSpan);
  assert.deepEqual(creation?.status, { code: SpanStatusCode.ERROR, message: "invalid_command" });
  assert.equal(creation?.attributes["codeq.refusal"], "invalid_command");
  assert.equal(result?.name, "codeq.task.submit_result");
  assert.equal(result?.spanContext().traceId, taskId.replaceAll("-", ""));
  assert.equal(result?.attributes["codeq.worker_id"], "w1");
  assert.equal(other?.parentSpanContext, undefined);
  assert.equal(other?.status.code, SpanStatusCode.ERROR);
});

test("a webhook carries the id of its own span, and a task that is not kept its producer's", async () => {
  const { tracing, spans } = setup();
  const webhook = "https://hooks.example.com/done";
  const post = tracing.posting(taskWith({ traceParent: sampled, webhook }), 2);
  post.end(500);
  const untraced = tracing.posting(taskWith({ traceParent: notSampled, webhook }), 1);
  assert.equal(untraced.traceParent, notSampled);
  untraced.end(200);
  const [span, ...others] = await spans();
  assert.equal(others.length, 0);
  assert.equal(span?.name, "codeq.webhook.task_result");
  assert.equal(post.traceParent, `00-${traceId}-${span?.spanContext().spanId}-01`);
  assert.equal(span?.attributes["codeq.webhook.host"], "hooks.example.com");
  assert.equal(span?.attributes["codeq.webhook.attempt"], 2);
  assert.equal(span?.status.code, 2);
});

test("a notification is a trace of its own, which its receiver gets", async () => {
  const { tracing, spans } = setup();
  const notice = {
    tenantId: "acme",
    eventType: "Render",
    url: "https://hooks.example.com:8443/wake",
    subscriptionId: "sub-1",
  };
  const post = tracing.notifying(notice);
  post.end(204);
  tracing.notifying(notice).end(undefined);
  const [span, failed] = await spans();
  assert.equal(span?.name, "codeq.webhook.queue_ready");
  assert.equal(span?.instrumentationScope.name, "codeq/notifier");
  assert.equal(span?.kind, SpanKind.CLIENT);
  assert.equal(span?.parentSpanContext, undefined);
  assert.deepEqual(span?.attributes, {
    "codeq.command": "Render",
    "codeq.tenant_id": "acme",
    "codeq.subscription.id": "sub-1",
    "codeq.webhook.kind": "queue_ready",
    "codeq.webhook.host": "hooks.example.com:8443",
    "http.status_code": 204,
  });
  const { traceId: own, spanId } = span!.spanContext();
  assert.equal(post.traceParent, `00-${own}-${spanId}-01`);
  assert.equal(span?.status.code, 0);
  assert.equal(failed?.status.code, 2);
  assert.notEqual(failed?.spanContext().traceId, own);
});

test("a notification that the ratio does not keep says so to its receiver", async () => {
  const { tracing, spans } = setup({ tracingSampleRatio: 0 });
  const url = "https://hooks.example.com/wake";
  const notice = { tenantId: "acme", eventType: "render", url, subscriptionId: "s" };
  const post = tracing.notifying(notice);
  post.end(200);
  assert.match(post.traceParent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
  assert.deepEqual(await spans(), []);
});

test("the resource has the name of the service and what the operator adds", async () => {
  const { tracing, spans } = setup({
    tracingServiceName: "queue",
    tracingResourceAttributes: "region=eu, owner=a%20b",
  });
  tracing.changed(changeWith({}, "created"));
  const [span] = await spans();
  const { attributes } = span!.resource;
  assert.equal(attributes["service.name"], "queue");
  assert.equal(attributes["region"], "eu");
  assert.equal(attributes["owner"], "a b");
});

function taskWith(fields: Partial<Task>): Task {
  return {
    id: "01991e2f-0000-7abc-9def-0123456789ab" as TaskId,
    tenantId: "acme",
    command: "work",
    priority: 0,
    webhook: "",
    idempotencyKey: "",
    traceParent: "",
    traceState: "",
    attempts: 0,
    error: "",
    updatedMs: 1_700_000_000_000,
    place: { in: "ready", seq: 1 },
    ...fields,
  } as unknown as Task;
}

function changeWith(fields: Partial<Task>, because: Cause): Change {
  return changeOf(undefined, taskWith(fields), because);
}
