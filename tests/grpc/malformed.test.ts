/** What no client should send: each costs its sender the stream, and nobody else anything. */
import assert from "node:assert/strict";
import test from "node:test";
import { producerStream, workerStream } from "./messages.ts";
import { frame } from "./raw-connection.ts";
import { setup } from "./setup.ts";

const mebibyte = 1024 * 1024;
const unmarshal = "13 grpc: failed to unmarshal the received message: ";

test("bytes that are no message end the stream, before and after the Hello", async (t) => {
  const server = await setup(t);
  const bystander = await server.worker();
  const cases = [
    ["ff", "the message is cut off"],
    ["0a05 61", "the message is cut off"],
    ["07 61", "a field has an impossible number"],
    ["0a03 0a01 ff", "a text is not UTF-8"],
    ["08 ffffffffffffffffffff 7f", "a number has more than 64 bits"],
  ] as const;
  for (const { encode, path } of [workerStream, producerStream]) {
    const token = path === workerStream.path ? "worker-acme" : "producer-acme";
    for (const [hex, problem] of cases) {
      const garbage = Buffer.from(hex.replaceAll(" ", ""), "hex");
      const first = server.raw("worker").call(path);
      first.stream.resume();
      first.send(garbage);
      assert.equal(await first.ended, unmarshal + problem);
      const second = server.raw("worker").call(path);
      second.stream.resume();
      second.send(encode({ hello: { token } }), garbage);
      assert.equal(await second.ended, unmarshal + problem);
    }
  }
  await bystander.expectSilence();
});

test("what came before the garbage is done", async (t) => {
  const server = await setup(t);
  const { encode, path } = producerStream;
  const call = server.raw("producer").call(path);
  call.stream.resume();
  const create = encode({ create: { seq: 1, command: "render" } });
  call.send(
    encode({ hello: { token: "producer-acme" } }),
    create,
    Buffer.from("ff", "hex"),
    create,
  );
  assert.match(await call.ended, /^13 /);
  assert.equal((await server.api.stats()).ready, 1);
});

test("a message of more than 4 MiB ends the stream, one of exactly 4 MiB does not", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const padded = (bytes: number): Buffer => {
    // An unknown field with so much in it that the whole has the size.
    const head = producerStream.encode({ create: { seq: 1, command: "render" } });
    const prefix = Buffer.from("fa0180000000", "hex");
    const filler = bytes - head.length - prefix.length;
    prefix.set([0x80 | (filler & 127), 0x80 | ((filler >> 7) & 127)], 2);
    prefix.set([0x80 | ((filler >> 14) & 127), filler >> 21], 4);
    return Buffer.concat([head, prefix, Buffer.alloc(filler)]);
  };
  assert.equal((await call.ask(padded(4 * mebibyte)))["createAck"].ok, true);
  call.send(padded(4 * mebibyte + 1));
  assert.deepEqual(await call.ended, {
    code: "RESOURCE_EXHAUSTED",
    details: "grpc: received message larger than max (4194305 vs. 4194304)",
  });
  assert.equal((await server.api.stats()).ready, 1);
});

test("a compressed message is refused, as nothing was agreed on", async (t) => {
  const server = await setup(t);
  const { encode, path } = workerStream;
  const message = frame(encode({ hello: { token: "worker-acme" } }));
  message[0] = 1;
  const call = server.raw("worker").call(path);
  call.stream.resume();
  call.stream.write(message);
  assert.equal(await call.ended, "13 grpc: compressed flag set with identity or empty encoding");
});

test("a stream that ends inside a message ends with an error", async (t) => {
  const server = await setup(t);
  const { encode, path } = producerStream;
  const call = server.raw("producer").call(path);
  call.stream.resume();
  call.send(encode({ hello: { token: "producer-acme" } }));
  call.stream.end(frame(encode({ create: { seq: 1, command: "render" } })).subarray(0, 9));
  assert.equal(await call.ended, "13 the call ends inside a message");
});

test("a message with too many elements is refused before they are made", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const task = Buffer.from("0a00", "hex");
  const count = 65_537;
  const list = Buffer.concat(Array.from({ length: count }, () => task));
  const length = Buffer.from([
    0x80 | (list.length & 127),
    0x80 | ((list.length >> 7) & 127),
    list.length >> 14,
  ]);
  call.send(Buffer.concat([Buffer.from("1a", "hex"), length, list]));
  const { code, details } = await call.ended;
  assert.equal(code, "INTERNAL");
  assert.match(details, /more than 65536 elements/);
});

test("unknown fields are passed over", async (t) => {
  const server = await setup(t);
  const call = await server.producer();
  const extra = Buffer.from("f2ac0c 03 616263".replaceAll(" ", ""), "hex");
  const create = producerStream.encode({ create: { seq: 1, command: "render" } });
  const { createAck } = await call.ask(Buffer.concat([extra, create, extra]));
  assert.equal(createAck.ok, true);
});

test("a method that is unknown, and a request that is not gRPC, are answered as such", async (t) => {
  const server = await setup(t);
  const connection = server.raw("worker");
  for (const [path, end] of [
    ["/workerpb.WorkerStream/Other", "12 unknown method Other for service workerpb.WorkerStream"],
    ["/clusterpb.TaskNode/Enqueue", "12 unknown service clusterpb.TaskNode"],
  ] as const) {
    const call = connection.call(path);
    call.stream.resume();
    assert.equal(await call.ended, end);
  }
  const page = connection.call(workerStream.path, { "content-type": "application/json" });
  const answered = new Promise((resolve) => {
    page.stream.once("response", (headers) => resolve(headers[":status"]));
  });
  page.stream.resume();
  assert.equal(await answered, 415);
});
