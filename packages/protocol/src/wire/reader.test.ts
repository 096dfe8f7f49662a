import assert from "node:assert/strict";
import { test } from "node:test";
import {
  newCreateTask,
  type ProducerEvent,
  readCreateAck,
  readCreateTask,
  readCreateTaskBatch,
  readProducerEvent,
  writeCreateAck,
  writeProducerEvent,
} from "./producer-messages.ts";
import { decodeMessage, textOf, WireError } from "./reader.ts";
import { newTask, readReady, readTask, readWorkerEvent, writeTask } from "./worker-messages.ts";
import { encodeMessage } from "./writer.ts";

const bytes = (hex: string) => Buffer.from(hex.replaceAll(" ", ""), "hex");

function refuses(run: () => unknown, why: RegExp): void {
  assert.throws(run, (error) => error instanceof WireError && why.test(error.message));
}

test("a sequence number comes back exactly, however large", () => {
  for (const seq of [0, 1, 127, 128, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2n ** 53n, 2n ** 64n - 1n]) {
    const ack = {
      seq,
      ok: true,
      taskId: "t",
      errorMessage: "",
      errorCode: "",
      deduplicated: false,
    };
    assert.equal(decodeMessage(readCreateAck, encodeMessage(writeCreateAck, ack)).seq, seq);
  }
});

test("every event that is cut off is refused, wherever it is cut", () => {
  const event: ProducerEvent = {
    case: "create",
    value: {
      seq: 2n ** 60n,
      command: "resize-image",
      payload: '{"a":[1,2,3]}',
      priority: -5,
      webhook: "https://example.com/é",
      maxAttempts: 300,
      idempotencyKey: "k".repeat(200),
      idempotencyMode: "first",
      uniqueKey: "u",
      uniqueWhile: "waiting",
      uniqueOn: "latest",
      uniqueFor: "5m",
      uniqueMaxWait: "",
      batchId: "b",
      after: ["a1", "a2"],
      lane: "é",
      cost: 3,
      runAtMs: -1234,
      delaySeconds: 7,
      delayMs: 0,
      traceParent: "00-1",
      traceState: "a=b",
      tags: ["red", "é"],
      timeoutSeconds: 90,
      ttlSeconds: 3600,
    },
  };
  const whole = encodeMessage(writeProducerEvent, event);
  for (let length = 1; length < whole.length; length += 1) {
    refuses(() => decodeMessage(readProducerEvent, whole.subarray(0, length)), /cut off/);
  }
});

test("an empty message is all defaults, and an event without a member has no case", () => {
  assert.deepEqual(decodeMessage(readTask, new Uint8Array()), newTask());
  assert.deepEqual(decodeMessage(readWorkerEvent, new Uint8Array()), { case: undefined });
});

test("a member that is not known leaves the event without a case", () => {
  assert.deepEqual(decodeMessage(readWorkerEvent, bytes("fa0102 0a00")), { case: undefined });
});

test("the last member of a oneof wins", () => {
  const { case: name } = decodeMessage(readWorkerEvent, bytes("0a00 1200 2a00"));
  assert.equal(name, "heartbeat");
});

test("the last value of a field wins", () => {
  assert.equal(decodeMessage(readCreateTask, bytes("2001 2002")).priority, 2);
});

test("unknown fields of every wire type are passed over", () => {
  const known = "2007";
  for (const unknown of [
    "f80196 01", // a number
    "f9010102030405060708", // eight bytes
    "fa0103616263", // a length and bytes
    "fb01 0801 fb01 fc01 fc01", // a group in a group
    "fd0101020304", // four bytes
  ]) {
    assert.equal(decodeMessage(readCreateTask, bytes(`${unknown} ${known}`)).priority, 7);
  }
});

test("a known field with another wire type is passed over", () => {
  const task = decodeMessage(readCreateTask, bytes("2201 61 1005 2003"));
  assert.equal(task.priority, 3);
  assert.equal(task.command, "");
});

test("damaged structure is refused", () => {
  const cases: readonly [hex: string, why: RegExp][] = [
    ["00", /impossible number/],
    ["07", /impossible number/],
    ["ffffffffff7f", /impossible number/],
    ["0e01", /wire type 6/],
    ["0f01", /wire type 7/],
    ["0c", /wire type 4/],
    ["f801", /cut off/],
    ["fb01 0801", /cut off/],
    ["fb01 f402", /another number/],
    ["12ffffffff0f", /cut off/],
    ["12ffffffffffffffff7f", /cut off/],
    ["20 ffffffffffffffffff02", /64 bits/],
    ["20 ffffffffffffffffffff01", /64 bits/],
    ["20 ff", /cut off/],
    ["4205 08", /cut off/],
    ["4202 0880 01", /cut off/],
    ["fd01 010203", /cut off/],
    ["f901 01020304050607", /cut off/],
  ];
  for (const [hex, why] of cases) refuses(() => decodeMessage(readCreateTask, bytes(hex)), why);
});

test("groups that are nested without end are refused", () => {
  refuses(() => decodeMessage(readCreateTask, Buffer.alloc(100_000, 0x0b)), /too deep/);
});

test("numbers in a longer form than needed are read", () => {
  const task = decodeMessage(readCreateTask, bytes("a080808000 83808000 2004 088280808000"));
  assert.equal(task.priority, 4);
  assert.equal(task.seq, 2);
});

test("a negative number takes ten bytes, and a short form of it is large", () => {
  assert.equal(decodeMessage(readCreateTask, bytes("20ffffffffffffffffff01")).priority, -1);
  assert.equal(decodeMessage(readCreateTask, bytes("20ffffffff0f")).priority, -1);
});

test("a flag is set by any number but zero", () => {
  assert.equal(decodeMessage(readCreateAck, bytes("1080808080808001")).ok, true);
  assert.equal(decodeMessage(readCreateAck, bytes("1000")).ok, false);
});

test("texts have to be UTF-8, in short and in long", () => {
  const text = (content: Buffer) =>
    Buffer.concat([
      Buffer.from([0x12, 0x80 | (content.length & 127), content.length >> 7]),
      content,
    ]);
  const padding = Buffer.from("x".repeat(200));
  for (const hex of ["ff", "c3", "c080", "eda080", "f4908080", "80"]) {
    const damaged = bytes(hex);
    for (const content of [damaged, Buffer.concat([padding, damaged])]) {
      refuses(() => decodeMessage(readCreateTask, text(content)), /UTF-8/);
      refuses(() => textOf(content), /UTF-8/);
    }
  }
  for (const good of ["\ufffd", "\ufeffé", "日本語".repeat(60), "a".repeat(13), "\0"]) {
    assert.equal(decodeMessage(readCreateTask, text(Buffer.from(good))).command, good);
    assert.equal(textOf(Buffer.from(good)), good);
    assert.equal(textOf(new Uint8Array(Buffer.from(good))), good);
  }
  assert.equal(textOf("as it is"), "as it is");
});

test("bytes are a view of the input", () => {
  const input = bytes("1a03 010203");
  const { payload } = decodeMessage(readCreateTask, input);
  assert.ok(payload instanceof Uint8Array);
  assert.equal(payload.buffer, input.buffer);
  assert.deepEqual([...payload], [1, 2, 3]);
});

test("input that is not a Buffer is read from its place", () => {
  const around = new Uint8Array([9, 9, 0x20, 5, 9]);
  assert.equal(decodeMessage(readCreateTask, around.subarray(2, 4)).priority, 5);
});

test("a message cannot make more objects than its limit", () => {
  const batch = (count: number) => Buffer.alloc(count * 2, Buffer.from([0x0a, 0]));
  assert.equal(decodeMessage(readCreateTaskBatch, batch(65_536)).tasks.length, 65_536);
  refuses(() => decodeMessage(readCreateTaskBatch, batch(65_537)), /65536 elements/);
  refuses(() => decodeMessage(readReady, batch(2_000_000)), /65536 elements/);
});

test("moments keep their milliseconds, before 1970 too", () => {
  for (const ms of [0, 1, 999, -1, -1000, -62_135_596_800_000, 253_402_300_799_999]) {
    const task = { ...newCreateTask(), runAtMs: ms };
    const event = encodeMessage(writeProducerEvent, { case: "create", value: task });
    const read = decodeMessage(readProducerEvent, event);
    assert.equal(read.case === "create" && read.value.runAtMs, ms);
  }
  // 1,999,999 nanoseconds are one whole millisecond.
  assert.equal(decodeMessage(readCreateTask, bytes("4204 10ff887a")).runAtMs, 1);
});

test("a peer that knows fewer fields can read a task", () => {
  const task = { ...newTask(), id: "a", leaseToken: 9 };
  assert.equal(encodeMessage(writeTask, task).toString("hex"), "0a0161a00609");
});
