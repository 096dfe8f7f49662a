import assert from "node:assert/strict";
import { totalmem } from "node:os";
import { test } from "node:test";
import {
  anonymousConnectionsOf,
  handshakesOf,
  memoryOf,
  unauthenticatedCallsOf,
} from "./memory.ts";

const gibibyte = 1024 ** 3;

test("the memory is that of the setting, or at most that of the machine", () => {
  assert.equal(memoryOf({ memoryBytes: gibibyte }), gibibyte);
  const found = memoryOf({ memoryBytes: 0 });
  assert.ok(found > 0 && found <= totalmem(), `${found}`);
});

test("a small server keeps fewer unauthenticated calls, connections and handshakes", () => {
  assert.equal(unauthenticatedCallsOf(gibibyte / 2), 1024);
  assert.equal(unauthenticatedCallsOf(64 * gibibyte), 10_000);
  assert.equal(anonymousConnectionsOf(gibibyte / 2), 1024);
  assert.equal(handshakesOf(gibibyte / 2), 256);
  assert.equal(handshakesOf(64 * gibibyte), 4096);
});
