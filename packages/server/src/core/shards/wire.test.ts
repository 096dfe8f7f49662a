import assert from "node:assert/strict";
import { test } from "node:test";
import { answer, call } from "./wire.ts";

test("every call and every answer has a number of its own", () => {
  for (const numbers of [Object.values(call), Object.values(answer)]) {
    assert.equal(new Set<number>(numbers).size, numbers.length);
  }
});
