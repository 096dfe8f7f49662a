import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers";
import { SendQueue, SendTurn } from "./send-queue.ts";

/** The messages in the bytes of a call, with a slash before each. */
function messagesIn(bytes: Buffer | undefined): string {
  let text = "";
  for (let at = 0; bytes !== undefined && at < bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1);
    text += `/${bytes.toString("latin1", at + 5, end)}`;
    at = end;
  }
  return text;
}

class Sink {
  readonly chunks: Buffer[] = [];
  readonly done: (() => void)[] = [];
  writableLength = 0;

  write(chunk: Buffer, done: () => void): void {
    this.chunks.push(chunk);
    this.writableLength += chunk.length;
    this.done.push(done);
  }
}

function setup(turn = new SendTurn()) {
  const sink = new Sink();
  const events: string[] = [];
  const queue = new SendQueue({
    turn,
    sink,
    messageBytesMax: 100_000,
    onFirst: () => events.push("first"),
    onSent: () => events.push("sent"),
  });
  const add = (text: string) =>
    queue.add((message: string, writer) => writer.append(Buffer.from(message)), text);
  const endOfTurn = () => new Promise<void>((resolve) => nextTurn(() => resolve()));
  return { sink, events, queue, add, endOfTurn };
}

test("messages of one turn leave in one write, with their prefixes", async () => {
  const { sink, events, queue, add, endOfTurn } = setup();
  assert.equal(add("one"), 3);
  add("");
  add("three");
  assert.equal(sink.chunks.length, 0);
  assert.equal(queue.pendingBytes, 8 + 15);
  await endOfTurn();
  assert.deepEqual(
    sink.chunks.map((chunk) => chunk.toString("latin1")),
    ["\0\0\0\0\x03one\0\0\0\0\0\0\0\0\0\x05three"],
  );
  assert.equal(queue.pendingBytes, 23);
  add("more");
  await endOfTurn();
  assert.equal(sink.chunks.length, 2);
  assert.deepEqual(events, ["first"]);
});

test("calls that send in the same turn do not see each other's bytes", async () => {
  const turn = new SendTurn();
  const [a, b] = [setup(turn), setup(turn)];
  for (const text of ["1", "2", "3"]) {
    a.add(`a${text}`);
    b.add(`b${text}`);
  }
  await a.endOfTurn();
  assert.equal(messagesIn(a.sink.chunks[0]), "/a1/a2/a3");
  assert.equal(messagesIn(b.sink.chunks[0]), "/b1/b2/b3");
  // Later messages must not overwrite what has not left.
  a.add("xx");
  await a.endOfTurn();
  assert.equal(messagesIn(a.sink.chunks[0]), "/a1/a2/a3");
});

test("a chunk holds only its own bytes, so that a call that waits holds no others", async () => {
  const { sink, add, endOfTurn } = setup();
  add("x".repeat(100));
  await endOfTurn();
  assert.equal(sink.chunks[0]?.buffer.byteLength, 105);
});

test("a full turn does not wait for its end", () => {
  const { sink, add } = setup();
  for (let index = 0; index < 70; index += 1) add("y".repeat(1000));
  assert.equal(sink.chunks.length, 1);
});

test("a message over the limit and one that fails leave nothing behind", async () => {
  const { sink, queue, add, endOfTurn } = setup();
  add("before");
  assert.equal(add("z".repeat(100_001)), 100_001);
  assert.throws(
    () =>
      queue.add((_, writer) => {
        writer.append(Buffer.from("half"));
        throw new Error("no");
      }, ""),
    /no/,
  );
  add("after");
  await endOfTurn();
  assert.equal(messagesIn(Buffer.concat(sink.chunks)), "/before/after");
});

test("what was dropped is not sent", async () => {
  const { sink, queue, add, endOfTurn } = setup();
  add("gone");
  queue.drop();
  await endOfTurn();
  assert.deepEqual(sink.chunks, []);
  assert.equal(queue.pendingBytes, 0);
});
