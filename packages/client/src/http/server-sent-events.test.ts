import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader, ForeignAnswerError, type ServerSentEvent } from "./http-core.ts";

function read(...pieces: readonly string[]): ServerSentEvent[] {
  const reader = new EventReader();
  return pieces.flatMap((piece) => [...reader.read(piece)]);
}

const text = 'retry: 1000\n\nevent: created\ndata: {"a":1}\n\n:\n\nevent: end\ndata: 2\n\n';
const life = { name: "", value: undefined };
const events = [life, { name: "created", value: { a: 1 } }, life, { name: "end", value: 2 }];

test("events are the same however the answer is cut into pieces", () => {
  assert.deepEqual(read(text), events);
  assert.deepEqual(read(...text), events);
});

test("an event that has not ended is not told", () => {
  assert.deepEqual(read("event: created\ndata: 1\n"), []);
});

test("an event without end, and one that is not JSON, are not from a server", () => {
  const piece = "x".repeat(64 * 1024);
  assert.deepEqual(read(...Array(16).fill(piece)), []);
  assert.throws(() => read(...Array(17).fill(piece)), ForeignAnswerError);
  assert.throws(() => read("event: created\ndata: hello\n\n"), ForeignAnswerError);
});
