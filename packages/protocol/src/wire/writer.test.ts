import assert from "node:assert/strict";
import { test } from "node:test";
import {
  newCreateTask,
  readCreateTask,
  writeCreateAck,
  writeCreateTask,
} from "./producer-messages.ts";
import { decodeMessage, textOf } from "./reader.ts";
import { encodeMessage, WireWriter } from "./writer.ts";

const task = (fields: Partial<ReturnType<typeof newCreateTask>>) => ({
  ...newCreateTask(),
  ...fields,
});

test("texts of every length and width come back", () => {
  const lengths = [0, 1, 23, 24, 25, 41, 42, 43, 63, 64, 127, 128, 341, 1023, 1024, 1025, 16_384];
  for (const length of lengths) {
    for (const unit of ["a", "é", "語"]) {
      const command = unit.repeat(length);
      const bytes = encodeMessage(writeCreateTask, task({ command }));
      assert.equal(decodeMessage(readCreateTask, bytes).command, command);
    }
  }
});

test("a text with half a character is written with a replacement", () => {
  const bytes = encodeMessage(writeCreateTask, task({ command: "a\ud800b" }));
  assert.equal(decodeMessage(readCreateTask, bytes).command, "a\ufffdb");
});

test("bytes may be given as text", () => {
  for (const payload of ["{}", "é".repeat(500), "x".repeat(70_000)]) {
    const bytes = encodeMessage(writeCreateTask, task({ payload }));
    assert.deepEqual(
      bytes,
      encodeMessage(writeCreateTask, task({ payload: Buffer.from(payload) })),
    );
    assert.equal(textOf(decodeMessage(readCreateTask, bytes).payload), payload);
  }
});

test("a number that is not exact is refused before it is sent", () => {
  const ack = {
    seq: 0 as number | bigint,
    ok: false,
    taskId: "",
    errorMessage: "",
    errorCode: "",
    deduplicated: false,
  };
  for (const seq of [-1, 1.5, 2 ** 53, Number.NaN, -1n, 2n ** 64n]) {
    assert.throws(() => encodeMessage(writeCreateAck, { ...ack, seq }), RangeError);
  }
});

test("a message inside a message is moved when its length takes another number of bytes", () => {
  for (const size of [0, 100, 125, 126, 127, 128, 200, 16_380, 16_384, 2_100_000]) {
    for (const guess of [1, 2, 3]) {
      const writer = new WireWriter(8);
      writer.messageMember(10, guess, (value, to) => to.append(value), Buffer.alloc(size, 7));
      writer.stringField(18, "after");
      const command = writer
        .view()
        .subarray(writer.length - 5)
        .toString();
      assert.equal(command, "after");
      const plain = new WireWriter();
      plain.bytesMember(10, Buffer.alloc(size, 7));
      plain.stringField(18, "after");
      assert.deepEqual(writer.view(), plain.view());
    }
  }
});

test("a writer is used again, and can take back what it wrote", () => {
  const writer = new WireWriter(4);
  writer.stringField(10, "first");
  const kept = writer.length;
  writer.stringField(18, "second");
  writer.truncate(kept);
  assert.deepEqual([...writer.view()], [10, 5, ...Buffer.from("first")]);
  writer.reset();
  assert.equal(writer.length, 0);
  const at = writer.reserve(5);
  writer.append(Buffer.from("abc"));
  writer.patchPrefix(at, 1, 3);
  assert.deepEqual([...writer.view()], [1, 0, 0, 0, 3, 97, 98, 99]);
});

test("encoding inside an encoding does not disturb it", () => {
  const bytes = encodeMessage((message: string, writer) => {
    writer.stringField(10, message);
    writer.bytesMember(
      18,
      encodeMessage((inner: string, to) => to.stringField(10, inner), "in"),
    );
  }, "out");
  assert.deepEqual([...bytes], [10, 3, ...Buffer.from("out"), 18, 4, 10, 2, ...Buffer.from("in")]);
});

test("encoding still works after a write that failed and after a very large one", () => {
  const ack = {
    seq: 1,
    ok: true,
    taskId: "",
    errorMessage: "",
    errorCode: "",
    deduplicated: false,
  };
  assert.throws(() => encodeMessage(writeCreateAck, { ...ack, seq: -1 }));
  const large = encodeMessage(writeCreateTask, task({ payload: Buffer.alloc(1_000_000) }));
  assert.equal(large.length, 1_000_004);
  assert.deepEqual([...encodeMessage(writeCreateAck, ack)], [8, 1, 16, 1]);
});
