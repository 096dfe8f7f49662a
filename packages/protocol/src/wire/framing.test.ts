import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { FrameReader } from "./framing.ts";

const options = { messageBytesMax: 1000, encoding: undefined };

function frame(message: Uint8Array, flag = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = flag;
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

function readAll(frames: FrameReader): Buffer[] {
  const messages: Buffer[] = [];
  for (let next = frames.next(); next !== undefined; next = frames.next()) messages.push(next);
  return messages;
}

test("messages come out whole and in order, however the bytes are cut", () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 20 });
  fc.assert(
    fc.property(messages, fc.array(fc.nat({ max: 40 })), (sent, cuts) => {
      const frames = new FrameReader(options);
      let rest = Buffer.concat(sent.map((message) => frame(message)));
      const got: Buffer[] = [];
      for (const cut of cuts) {
        frames.push(rest.subarray(0, cut));
        rest = rest.subarray(cut);
        got.push(...readAll(frames));
      }
      frames.push(rest);
      got.push(...readAll(frames));
      assert.deepEqual(
        got.map((each) => [...each]),
        sent.map((each) => [...each]),
      );
      assert.equal(frames.isInsideMessage, false);
      assert.equal(frames.fault, undefined);
    }),
  );
});

test("a message that lies in one chunk is a view of it", () => {
  const frames = new FrameReader(options);
  const chunk = Buffer.concat([frame(Buffer.from("one")), frame(Buffer.from("two"))]);
  frames.push(chunk);
  for (const message of readAll(frames)) assert.equal(message.buffer, chunk.buffer);
});

test("chunks wait while nobody asks", () => {
  const frames = new FrameReader(options);
  for (const text of ["a", "b", "c"]) frames.push(frame(Buffer.from(text)));
  assert.equal(String(frames.next()), "a");
  frames.push(frame(Buffer.from("d")));
  assert.deepEqual(readAll(frames).map(String), ["b", "c", "d"]);
});

test("the end inside a prefix and inside a message is noticed", () => {
  for (const length of [1, 4, 5, 7]) {
    const frames = new FrameReader(options);
    frames.push(frame(Buffer.from("abc")).subarray(0, length));
    assert.equal(frames.next(), undefined);
    assert.equal(frames.isInsideMessage, true, String(length));
  }
});

test("a message over the limit is refused when its length is known, one at the limit is not", () => {
  const frames = new FrameReader(options);
  frames.push(frame(Buffer.alloc(1000)));
  assert.equal(frames.next()?.length, 1000);
  frames.push(frame(Buffer.alloc(1001)).subarray(0, 5));
  assert.equal(frames.next(), undefined);
  assert.deepEqual(frames.fault, {
    status: "RESOURCE_EXHAUSTED",
    message: "grpc: received message larger than max (1001 vs. 1000)",
  });
});

test("nothing is read after a fault, and what came before it is", () => {
  const frames = new FrameReader(options);
  frames.push(
    Buffer.concat([frame(Buffer.from("ok")), frame(Buffer.from("x"), 1), frame(Buffer.from("y"))]),
  );
  assert.deepEqual(readAll(frames).map(String), ["ok"]);
  assert.equal(frames.fault?.status, "INTERNAL");
  assert.equal(frames.next(), undefined);
});

test("compressed messages are refused with what the client announced", () => {
  const faultOf = (flag: number, encoding: string | undefined) => {
    const frames = new FrameReader({ ...options, encoding });
    frames.push(frame(Buffer.from("x"), flag));
    frames.next();
    return frames.fault;
  };
  assert.deepEqual(faultOf(1, "gzip"), {
    status: "UNIMPLEMENTED",
    message: 'grpc: Decompressor is not installed for grpc-encoding "gzip"',
  });
  assert.equal(faultOf(1, "identity")?.status, "INTERNAL");
  assert.equal(faultOf(7, "gzip")?.message, "grpc: received unexpected payload format 7");
  assert.equal(faultOf(0, "gzip"), undefined);
});

test("a length that was only announced takes no memory", () => {
  const before = process.memoryUsage().arrayBuffers;
  const many = Array.from({ length: 50 }, () => {
    const frames = new FrameReader({ messageBytesMax: 4 << 20, encoding: undefined });
    frames.push(Buffer.from([0, 0, 0x40, 0, 0, 1, 2, 3]));
    frames.next();
    return frames;
  });
  assert.ok(process.memoryUsage().arrayBuffers - before < 5_000_000);
  assert.ok(many.every((frames) => frames.isInsideMessage));
});
