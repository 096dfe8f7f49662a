import assert from "node:assert/strict";
import { test } from "node:test";
import { levelSizes } from "@codeq/engine";
import { settingTable } from "./setting-table.ts";

test("the store has the same sizes with and without a configuration", () => {
  const { lsmCacheBytes, lsmWriteBufferBytes } = settingTable;
  assert.equal(lsmCacheBytes.initial, levelSizes.cacheBytes);
  assert.equal(lsmWriteBufferBytes.initial, levelSizes.writeBufferBytes);
});
