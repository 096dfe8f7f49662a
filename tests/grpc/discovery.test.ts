/** Health and reflection, as load balancers and tools ask for them, on both ports. */
import assert from "node:assert/strict";
import test from "node:test";
import type protobuf from "protobufjs";
import { Call } from "./call.ts";
import { loadProto, methodCodec, type Sendable } from "./messages.ts";
import { type Server, setup } from "./setup.ts";

const healthRoot = loadProto("grpc/health/v1/health.proto");
const reflectionRoot = loadProto("grpc/reflection/v1/reflection.proto");
const services = ["producerpb.ProducerStream", "workerpb.WorkerStream"];
const ports = ["worker", "producer"] as const;
const serving = { status: 1 };
const notServing = { status: 2 };

function open(server: Server, port: "worker" | "producer", method: string): Call {
  const [service = "", name = ""] = method.split("/");
  const root = service.includes("health") ? healthRoot : reflectionRoot;
  const codec = methodCodec(root, service, name);
  return server.track(new Call(codec, `127.0.0.1:${server.ports[port]}`));
}

test("the server and both services are healthy, on both ports", async (t) => {
  const server = await setup(t);
  for (const port of ports) {
    for (const service of ["", ...services]) {
      const call = open(server, port, "grpc.health.v1.Health/Check");
      call.send({ service });
      call.halfClose();
      assert.deepEqual(await call.next(), serving);
      assert.equal((await call.ended).code, "OK");
    }
    const unknown = open(server, port, "grpc.health.v1.Health/Check");
    unknown.send({ service: "other" });
    unknown.halfClose();
    assert.deepEqual(await unknown.ended, { code: "NOT_FOUND", details: "unknown service" });
  }
});

test("whoever watches the health hears of a change, and of the shutdown", async (t) => {
  const server = await setup(t);
  const call = await watch(server, "workerpb.WorkerStream");
  server.streams.setServing(false);
  assert.deepEqual(await call.next(), notServing);
  server.streams.setServing(true);
  assert.deepEqual(await call.next(), serving);
  const closed = server.grpc.worker.close(1000);
  assert.equal((await call.ended).code, "UNAVAILABLE");
  call.close();
  await closed;
});

/** Watches one service and gives what it is told, as it comes. */
async function watch(server: Server, service: string): Promise<Call> {
  const call = open(server, "worker", "grpc.health.v1.Health/Watch");
  call.send({ service });
  call.halfClose();
  assert.deepEqual(await call.next(), serving);
  return call;
}

async function check(server: Server, service: string): Promise<unknown> {
  const call = open(server, "producer", "grpc.health.v1.Health/Check");
  call.send({ service });
  call.halfClose();
  return await call.next();
}

test("a full disk is not healthy until there is room again, and who watches is told", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const names = ["", ...services];
  const watchers = await Promise.all(names.map((service) => watch(server, service)));
  const disk = await server.fillDisk();
  for (const call of watchers) assert.deepEqual(await call.next(), notServing);
  for (const service of names) assert.deepEqual(await check(server, service), notServing);
  await server.pass(10_000);
  await disk.free();
  for (const call of watchers) assert.deepEqual(await call.next(), serving);
  for (const service of names) assert.deepEqual(await check(server, service), serving);
  // Once for every change, and no more.
  for (const call of watchers) assert.deepEqual(call.unread, []);
});

test("a storage that has failed is not healthy", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const watcher = await watch(server, "");
  server.api.world.disk.failNext("write", "EIO");
  const refused = await server.api.post(
    "/tasks",
    { command: "render", payload: 0 },
    "producer-acme",
  );
  assert.equal(refused.status, 503);
  assert.deepEqual(await watcher.next(), notServing);
  assert.deepEqual(await check(server, "workerpb.WorkerStream"), notServing);
});

test("a disk that gets room while the server stops does not make it healthy", async (t) => {
  const server = await setup(t, { storage: "sim-disk" });
  const watcher = await watch(server, "");
  const disk = await server.fillDisk();
  assert.deepEqual(await watcher.next(), notServing);
  server.streams.stopServing();
  await disk.free();
  assert.deepEqual(await check(server, ""), notServing);
  assert.deepEqual(watcher.unread, []);
});

async function reflect(server: Server, port: "worker" | "producer", request: Sendable) {
  const call = open(server, port, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
  const reply = await call.ask(request);
  call.close();
  return reply;
}

test("reflection lists both services, on both ports", async (t) => {
  const server = await setup(t);
  for (const port of ports) {
    const { listServicesResponse } = await reflect(server, port, { listServices: "*" });
    const names = listServicesResponse.service.map(({ name }: { name: string }) => name);
    for (const service of services) assert.ok(names.includes(service), service);
  }
});

test("reflection gives files from which the methods can be called", async (t) => {
  const server = await setup(t);
  for (const service of services) {
    const { fileDescriptorResponse } = await reflect(server, "worker", {
      fileContainingSymbol: service,
    });
    const files: readonly Buffer[] = fileDescriptorResponse.fileDescriptorProto;
    const [space = "", name = ""] = service.split(".");
    const own = files.find((file) => file.includes(`${space}.proto`) && file.includes(name));
    assert.ok(own !== undefined, service);
    const source = loadProto(`${space}.proto`).lookup(space) as protobuf.Namespace;
    for (const { name: message } of source.nestedArray) {
      assert.ok(own.includes(message), `${space} lacks ${message}`);
    }
  }
  const { errorResponse } = await reflect(server, "worker", { fileContainingSymbol: "no.Such" });
  assert.equal(errorResponse.errorCode, 5);
});
