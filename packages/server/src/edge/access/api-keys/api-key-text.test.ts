import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SimRandom } from "../../../../../simulated/src/index.ts";
import { drawApiKey, idInApiKey, isApiKeyId, looksLikeApiKey } from "./api-key-text.ts";

const startMs = Date.UTC(2026, 0, 2);
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

function draw(seed: number, nowMs: number = startMs): ReturnType<typeof drawApiKey> {
  const random = new SimRandom(seed);
  return drawApiKey(nowMs, (into) => random.bytes(into));
}

const keys = fc.integer().map((seed) => draw(seed));

test("a key begins with its id, and the id is found in it", () => {
  fc.assert(
    fc.property(keys, ({ id, token }) => {
      assert.equal(token.length, 67);
      assert.ok(token.startsWith(`${id}_`));
      assert.equal(idInApiKey(token), id);
      assert.ok(isApiKeyId(id) && looksLikeApiKey(token));
      assert.equal(isApiKeyId(token), false);
    }),
  );
});

test("a wrong character, a missing one, one too many or two that changed places are noticed", () => {
  const at = fc.nat(66);
  fc.assert(
    fc.property(keys, at, fc.constantFrom(...alphabet), ({ token }, position, other) => {
      const before = token.slice(0, position);
      const after = token.slice(position + 1);
      if (token[position] !== other) assert.equal(idInApiKey(before + other + after), undefined);
      assert.equal(idInApiKey(before + after), undefined);
      assert.equal(idInApiKey(before + other + token.slice(position)), undefined);
      const [next = ""] = after;
      const swapped = before + next + token[position] + after.slice(1);
      if (swapped !== token) assert.equal(idInApiKey(swapped), undefined);
    }),
  );
});

test("text that only looks like a key has no id", () => {
  const { id, token } = draw(1);
  const others = [
    "",
    "cq_",
    id,
    `${id}_`,
    token.toUpperCase(),
    ` ${token}`,
    `${token}\n`,
    "dev-token",
  ];
  for (const text of others) assert.equal(idInApiKey(text), undefined, text);
  assert.equal(looksLikeApiKey("dev-token"), false);
});

test("ids sort by the time they were made, and two of one moment differ", () => {
  fc.assert(
    fc.property(fc.nat(2 ** 40), fc.nat(2 ** 40), fc.integer(), (a, b, seed) => {
      fc.pre(a !== b);
      assert.equal(draw(seed, a).id < draw(seed + 1, b).id, a < b);
    }),
  );
  const random = new SimRandom(1);
  const ids = Array.from(
    { length: 1000 },
    () => drawApiKey(startMs, (into) => random.bytes(into)).id,
  );
  assert.equal(new Set(ids).size, ids.length);
});

test("every digit of the secret is drawn from the whole alphabet", () => {
  const random = new SimRandom(7);
  const seen = new Set<string>();
  for (let count = 0; count < 200; count += 1) {
    const { id, token } = drawApiKey(startMs, (into) => random.bytes(into));
    for (const digit of token.slice(id.length + 1, -7)) seen.add(digit);
  }
  assert.equal([...seen].sort().join(""), alphabet);
});
