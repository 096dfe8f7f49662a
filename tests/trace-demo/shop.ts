/** A service that enqueues a task during a request, and is told of the result by a webhook. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pass } from "node:timers/promises";
import { codeq } from "@codeq/client";
import { openTelemetry } from "@codeq/client/opentelemetry";
import { context, propagation, SpanKind, trace } from "@opentelemetry/api";
import { resize } from "./resize.ts";
import { startTelemetry } from "./telemetry.ts";

const [url = "", collector = ""] = process.argv.slice(2);
const telemetry = startTelemetry("shop", collector);
const tracer = trace.getTracer("shop");
const { promise: told, resolve } = Promise.withResolvers<void>();
const server = createServer((request, response) => {
  const parent = propagation.extract(context.active(), request.headers);
  const span = tracer.startSpan("POST /resized", { kind: SpanKind.SERVER }, parent);
  request.resume().once("end", async () => {
    await pass(30);
    response.writeHead(204).end();
    span.end();
    resolve();
  });
}).listen(0, "127.0.0.1");
await once(server, "listening");
const webhook = `http://127.0.0.1:${(server.address() as AddressInfo).port}/resized`;

const client = codeq({ url, token: "dev-token", tracing: openTelemetry() });
await tracer.startActiveSpan("POST /photos", { kind: SpanKind.SERVER }, async (span) => {
  await client.enqueue(resize, { image: "cat.png", width: 320 }, { webhook });
  console.log(span.spanContext().traceId);
  span.end();
});
await told;
server.close();
server.closeAllConnections();
await client.close();
await telemetry.shutdown();
