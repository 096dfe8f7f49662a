import assert from "node:assert/strict";
import { test } from "node:test";
import { LocalLink } from "./link.ts";

test("what a shard says before anybody listens is heard first", () => {
  const link = new LocalLink({ defer: (run) => run(), close: () => Promise.resolve() });
  link.deliver(Uint8Array.of(1));
  link.deliver(Uint8Array.of(2));
  const heard: number[] = [];
  link.onMessage = ([byte]) => heard.push(byte as number);
  link.deliver(Uint8Array.of(3));
  assert.deepEqual(heard, [1, 2, 3]);
});
