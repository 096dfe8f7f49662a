/** The key that the guide takes apart is whole, and its parts are where they are drawn. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { idInApiKey } from "../../packages/server/src/edge/access/api-keys/api-key-text.ts";
import { blocksOf } from "./marks.ts";

test("the parts of the key are where the guide draws them", () => {
  const [block, ...others] = blocksOf("text parts");
  assert.ok(block !== undefined && others.length === 0);
  const [key = "", drawn = ""] = block.text.split("\n");
  const id = idInApiKey(key);
  assert.ok(id !== undefined, "its checksum does not fit");
  const parts = [...drawn.matchAll(/'[^']+'/g)].map(({ index, 0: { length } }) =>
    key.slice(index, index + length),
  );
  assert.deepEqual(
    parts.map(({ length }) => length),
    [19, 40, 7],
  );
  assert.equal(parts[0], id);
  assert.equal(`${parts[0]}_${parts[1]}${parts[2]}`, key);
});
