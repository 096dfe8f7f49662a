import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { health as messages } from "@codeq/protocol/wire";
import * as grpc from "@grpc/grpc-js";
import protobuf from "protobufjs";
import { systemClock } from "../../core/clock.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createGrpcServer, grpcLimits } from "./grpc-server.ts";
import { Health } from "./health.ts";

const statuses = messages.healthCheckResponseServingStatus;
const proto = protobuf.loadSync(
  join(import.meta.dirname, "../../../../../proto/grpc/health/v1/health.proto"),
);
const request = proto.lookupType("grpc.health.v1.HealthCheckRequest");
const response = proto.lookupType("grpc.health.v1.HealthCheckResponse");
const write = (service: string) => Buffer.from(request.encode({ service }).finish());
const read = (bytes: Buffer) => (response.decode(bytes) as unknown as { status: number }).status;

async function setup() {
  const health = new Health(["test.Known"], systemClock);
  const server = createGrpcServer({
    methods: health.methods,
    limits: grpcLimits,
    keepalive: { intervalMs: 0, timeoutMs: 10_000 },
    logger: createLogger({ level: "error", format: "text", write: () => {}, nowMs: () => 0 }),
    clock: systemClock,
  });
  const { port } = await server.listen({ host: "127.0.0.1", port: 0 });
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  const check = (service: string) =>
    new Promise<number | string>((resolve) => {
      client.makeUnaryRequest(
        "/grpc.health.v1.Health/Check",
        write,
        read,
        service,
        (error, value) =>
          resolve(error === null ? (value ?? -1) : `${error.code} ${error.details}`),
      );
    });
  const watch = (service: string) =>
    client.makeServerStreamRequest("/grpc.health.v1.Health/Watch", write, read, service);
  const open = () =>
    client.makeBidiStreamRequest<string, number>("/grpc.health.v1.Health/Check", write, read);
  const dispose = async () => {
    client.close();
    await server.close(0);
  };
  return { health, server, check, watch, open, [Symbol.asyncDispose]: dispose };
}

/** The next values of a watch, as they come. */
function follow(call: grpc.ClientReadableStream<number>) {
  const values = call[Symbol.asyncIterator]();
  return async () => (await values.next()).value as number;
}

test("the server and its services are not serving until they are", async () => {
  await using world = await setup();
  assert.equal(await world.check(""), statuses.NOT_SERVING);
  world.health.set("test.Known", true);
  assert.equal(await world.check("test.Known"), statuses.SERVING);
  assert.equal(await world.check(""), statuses.NOT_SERVING);
  world.health.setAll(true);
  assert.equal(await world.check(""), statuses.SERVING);
  world.health.setAll(false);
  assert.equal(await world.check("test.Known"), statuses.NOT_SERVING);
});

test("a service that does not exist is not found", async () => {
  await using world = await setup();
  assert.equal(await world.check("test.Unknown"), `${grpc.status.NOT_FOUND} unknown service`);
});

test("a watcher gets the present state and every change of its own service", async () => {
  await using world = await setup();
  const call = world.watch("test.Known");
  const next = follow(call);
  assert.equal(await next(), statuses.NOT_SERVING);
  world.health.set("", true);
  world.health.set("test.Known", true);
  world.health.set("test.Known", true);
  world.health.set("test.Known", false);
  assert.equal(await next(), statuses.SERVING);
  assert.equal(await next(), statuses.NOT_SERVING);
  call.on("error", () => {});
  call.cancel();
});

test("a watcher of a service that does not exist waits for it", async () => {
  await using world = await setup();
  const call = world.watch("test.Later");
  const next = follow(call);
  assert.equal(await next(), statuses.SERVICE_UNKNOWN);
  world.health.set("test.Later", true);
  assert.equal(await next(), statuses.SERVING);
  call.on("error", () => {});
  call.cancel();
});

test("watchers do not hold up a shutdown", async () => {
  await using world = await setup();
  const call = world.watch("");
  const failed = new Promise<grpc.ServiceError>((resolve) => call.once("error", resolve));
  await new Promise((resolve) => call.once("data", resolve));
  await world.server.close(60_000);
  assert.equal((await failed).code, grpc.status.UNAVAILABLE);
});

test("a call without a request, or with two, is refused", async () => {
  await using world = await setup();
  for (const count of [0, 2]) {
    const call = world.open();
    for (let sent = 0; sent < count; sent += 1) call.write("");
    call.end();
    const { code } = await new Promise<grpc.ServiceError>((resolve) => call.on("error", resolve));
    assert.equal(code, grpc.status.INTERNAL);
  }
});
