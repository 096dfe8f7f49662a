import assert from "node:assert/strict";
import { test } from "node:test";
import { levelSizes } from "@codeq/engine";
import { storageSettings } from "./storage-settings.ts";

test("the store has the same sizes with and without a configuration", () => {
  const { lsmCacheBytes, lsmWriteBufferBytes } = storageSettings;
  assert.equal(lsmCacheBytes.initial, levelSizes.cacheBytes);
  assert.equal(lsmWriteBufferBytes.initial, levelSizes.writeBufferBytes);
});
