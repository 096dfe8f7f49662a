import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { here } from "./checkout.ts";
import { clientOption } from "./go-client.ts";
import { batchSizes, duration, readOptions, UsageError } from "./options.ts";
import { turnOptions, turnsOf } from "./turn-options.ts";

test("sizes of batches are the same both ways, or two", () => {
  const read = (text: string) => readOptions(["--batch", text], { batch: batchSizes("1") }).batch;
  assert.deepEqual(read("1,8:32"), [
    { batch: 1, batchOut: 1 },
    { batch: 8, batchOut: 32 },
  ]);
  for (const wrong of ["", "0", "8:", "8:0", "1:2:3", "x"]) {
    assert.throws(() => read(wrong), UsageError, wrong);
  }
});

test("a time may be a part of a second", () => {
  const read = (text: string, min?: number) =>
    readOptions(["--seconds", text], { seconds: duration("1", min) }).seconds;
  assert.deepEqual([read("0.3"), read("20"), read("0", 0)], [0.3, 20, 0]);
  for (const wrong of ["", "0", "0.01", "-1", "x", "Infinity"]) {
    assert.throws(() => read(wrong), UsageError, wrong);
  }
});

test("both clients are two", () => {
  const read = (...args: string[]) => readOptions(args, { client: clientOption() }).client;
  assert.deepEqual(read(), ["own"]);
  assert.deepEqual(read("--client", "go"), ["go"]);
  assert.deepEqual(read("--client", "both"), ["own", "go"]);
  assert.throws(() => read("--client", "rust"), UsageError);
});

test("another checkout takes the first turn of three, and has to be one", () => {
  const read = (...args: string[]) => turnsOf(readOptions(args, turnOptions()));
  assert.deepEqual(read(), { checkouts: [here], rounds: 1 });
  assert.deepEqual(read("--rounds", "2"), { checkouts: [here], rounds: 2 });
  const there = { name: "there", root: here.root };
  assert.deepEqual(read("--against", here.root), { checkouts: [there, here], rounds: 3 });
  assert.deepEqual(read("--against", here.root, "--rounds", "5").rounds, 5);
  assert.throws(() => read("--against", join(here.root, "docs")), UsageError);
});
