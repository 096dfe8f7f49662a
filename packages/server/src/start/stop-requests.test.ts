import assert from "node:assert/strict";
import test from "node:test";
import { SignalCopies } from "./stop-requests.ts";

test("copies of a signal arrive together; a second signal comes later, or is another one", () => {
  const copies = new SignalCopies();
  assert.equal(copies.isCopy("SIGINT", 1000), false);
  assert.equal(copies.isCopy("SIGINT", 1004), true);
  assert.equal(copies.isCopy("SIGTERM", 1005), false);
  assert.equal(copies.isCopy("SIGINT", 1250), false);
});
