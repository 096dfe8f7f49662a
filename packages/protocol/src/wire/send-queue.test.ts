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

type Done = (error?: Error) => void;

/** Nothing leaves until it is told to. */
const newTurn = (): SendTurn => new SendTurn((run) => void nextTurn(run));

class Sink {
  readonly chunks: Buffer[] = [];
  #writes: Done[] = [];
  #isCorked = false;

  get writes(): number {
    return this.#writes.length;
  }

  cork(): void {
    this.#isCorked = true;
  }

  uncork(): void {
    this.#isCorked = false;
  }

  write(chunk: Buffer, done?: Done): void {
    this.chunks.push(chunk);
    if (done !== undefined) this.#writes.push(done);
    else assert.ok(this.#isCorked, "a write of its own says when it is done");
  }

  /** The oldest write has left, or never will. */
  leave(error?: Error): void {
    this.#writes.shift()?.(error);
  }
}

function setup(turn = newTurn()) {
  const sink = new Sink();
  const events: string[] = [];
  const queue = new SendQueue({
    turn,
    sink,
    messageBytesMax: 100_000,
    onFirst: () => events.push("first"),
    onSent: () => events.push("sent"),
  });
  const add = (text: string, unsent?: () => void) =>
    queue.add((message: string, writer) => writer.append(Buffer.from(message)), text, unsent);
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
  assert.deepEqual(events, ["first"]);
  sink.leave();
  assert.equal(queue.pendingBytes, 0);
  assert.deepEqual(events, ["first", "sent"]);
});

test("one write is under way at a time, and the turns behind it leave together", async () => {
  const { sink, events, queue, add, endOfTurn } = setup();
  for (const text of ["one", "two", "three"]) {
    add(text);
    await endOfTurn();
  }
  assert.equal(sink.chunks.length, 1);
  assert.equal(queue.pendingBytes, 8 + 8 + 10);
  sink.leave();
  assert.equal(sink.writes, 1);
  assert.equal(messagesIn(Buffer.concat(sink.chunks)), "/one/two/three");
  assert.equal(queue.pendingBytes, 8 + 10);
  sink.leave();
  assert.equal(queue.pendingBytes, 0);
  assert.deepEqual(events, ["first", "sent", "sent"]);
});

test("a write has a bounded size, however much waits", async () => {
  const { sink, add, endOfTurn } = setup();
  const large = 60_000;
  for (let index = 0; index < 8; index += 1) {
    add("x".repeat(large));
    await endOfTurn();
  }
  const sizes: number[] = [];
  for (let seen = 0; sink.chunks.length > seen; ) {
    sizes.push(sink.chunks.length - seen);
    seen = sink.chunks.length;
    sink.leave();
  }
  assert.deepEqual(sizes, [1, 3, 3, 1]);
});

test("who sent what never left is told, and nobody else", async () => {
  const { sink, queue, add, endOfTurn } = setup();
  const unsent: string[] = [];
  const send = (text: string) => add(text, () => unsent.push(text));
  send("has left");
  await endOfTurn();
  sink.leave();
  send("is leaving");
  await endOfTurn();
  send("waits");
  add("without interest");
  send("waits, too");
  await endOfTurn();
  send("of this turn");
  send("z".repeat(100_001));
  queue.drop();
  assert.deepEqual(unsent, ["waits", "waits, too", "of this turn"]);
  sink.leave(new Error("cancelled"));
  queue.drop();
  assert.equal(unsent.length, 3);
  assert.equal(sink.writes, 0);
});

test("the end is told when nothing waits here any more, which may be at once", async () => {
  const { sink, queue, add, endOfTurn } = setup();
  let ends = 0;
  const end = () => {
    ends += 1;
  };
  add("one");
  await endOfTurn();
  add("two");
  await endOfTurn();
  add("three");
  queue.finish(end);
  assert.equal(ends, 0);
  sink.leave();
  assert.deepEqual([ends, sink.writes], [1, 1]);
  sink.leave();
  assert.equal(ends, 1);
  const other = setup();
  other.add("one");
  other.queue.finish(end);
  assert.deepEqual([ends, messagesIn(other.sink.chunks[0])], [2, "/one"]);
  const dropped = setup();
  dropped.add("one");
  await endOfTurn();
  dropped.add("two");
  dropped.queue.finish(end);
  dropped.queue.drop();
  dropped.sink.leave(new Error("cancelled"));
  assert.equal(ends, 2);
});

test("calls that send in the same turn do not see each other's bytes", async () => {
  const turn = newTurn();
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
