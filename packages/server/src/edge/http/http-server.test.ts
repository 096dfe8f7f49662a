import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "@codeq/simulated";
import { BodyTurns } from "./http-server.ts";

const large = 1024 * 1024;

test("small bodies are read at once, large ones one in each turn, in order", async () => {
  const turns = new BodyTurns();
  const read: string[] = [];
  for (const name of ["a", "b", "c"]) turns.take(large, () => read.push(name));
  turns.take(100, () => read.push("small"));
  assert.deepEqual(read, ["small"]);
  for (const expected of [["a"], ["a", "b"], ["a", "b", "c"]]) {
    await settle(1);
    assert.deepEqual(read.slice(1), expected);
  }
  turns.take(large, () => read.push("d"));
  await settle(1);
  assert.equal(read.at(-1), "d");
});

test("a body that comes while another is read waits for the turn after", async () => {
  const turns = new BodyTurns();
  const read: string[] = [];
  turns.take(large, () => {
    read.push("a");
    turns.take(large, () => read.push("b"));
  });
  await settle(1);
  assert.deepEqual(read, ["a"]);
  await settle(1);
  assert.deepEqual(read, ["a", "b"]);
});
