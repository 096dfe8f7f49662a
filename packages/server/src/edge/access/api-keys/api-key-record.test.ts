import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import fc from "fast-check";
import { type ApiKey, type ApiKeyId, decodeApiKey, encodeApiKey } from "./api-key-record.ts";

const key: ApiKey = {
  id: "cq_0123456789abcdef" as ApiKeyId,
  tenantId: "acme" as TenantId,
  name: "continuous integration",
  hash: "ab".repeat(32),
  scopes: ["codeq:create"],
  eventTypes: ["*"],
  role: "none",
  createdMs: 1_767_323_045_120,
  createdBy: "boss",
  expiresMs: undefined,
};

test("a record is read back as it was written", () => {
  const ms = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
  const record = fc.record({
    name: fc.string({ unit: "grapheme" }),
    scopes: fc.array(fc.string()),
    eventTypes: fc.array(fc.string()),
    role: fc.constantFrom("none", "admin", "operator"),
    createdMs: ms,
    createdBy: fc.string(),
    expiresMs: fc.option(ms, { nil: undefined }),
  });
  fc.assert(
    fc.property(record, (fields) => {
      const whole = { ...key, ...fields } as ApiKey;
      assert.deepEqual(decodeApiKey(encodeApiKey(whole)), whole);
    }),
  );
});

test("what is not a whole record is none", () => {
  const row = JSON.parse(encodeApiKey(key)) as unknown[];
  for (let at = 0; at < row.length; at += 1) {
    for (const wrong of [true, {}, [7], undefined]) {
      const damaged = JSON.stringify(row.map((cell, index) => (index === at ? wrong : cell)));
      // Never to expire is what nothing stands for at the end.
      if (at === row.length - 1 && wrong === undefined) continue;
      assert.equal(decodeApiKey(damaged), undefined, damaged);
    }
    assert.equal(decodeApiKey(JSON.stringify(row.slice(0, at))), undefined);
  }
  for (const text of ["", "null", "{}", "[", encodeApiKey({ ...key, hash: "ab" })]) {
    assert.equal(decodeApiKey(text), undefined, text);
  }
  assert.equal(decodeApiKey(encodeApiKey({ ...key, role: "root" as never })), undefined);
});
