import assert from "node:assert/strict";
import { test } from "node:test";
import { flag, instant, list, mapOf, object, text, whole } from "@codeq/protocol/api";
import fc from "fast-check";
import { fieldsOf, rowOf } from "./row-of.ts";

const Inner = object({ code: text(), at: instant() });
const Thing = object({
  id: text("", { as: "name" }),
  kind: text("", { oneOf: ["a", "b"] }),
  createdAt: instant(),
  size: whole("", { isOptional: true }),
  parts: list(Inner),
  counts: mapOf(whole()),
  isOpen: flag("", { none: true }),
});
const before = rowOf(fieldsOf(Thing, "id", "kind", "createdAt", "size", "parts", "counts"));
const now = rowOf({
  ...fieldsOf(Thing, "id", "kind", "createdAt", "size", "parts", "counts"),
  ...fieldsOf(Thing, "isOpen"),
});

const things = fc.record({
  name: fc.string(),
  kind: fc.constantFrom("a" as const, "b" as const),
  createdMs: fc.maxSafeInteger(),
  size: fc.option(fc.maxSafeInteger(), { nil: undefined }),
  parts: fc.array(
    fc.record({ code: fc.string(), atMs: fc.maxSafeInteger() }, { noNullPrototype: true }),
  ),
  counts: fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), fc.integer(), { noNullPrototype: true }),
});

test("a row is read as it was written, and a row without a newer field has its none", () => {
  fc.assert(
    fc.property(things, fc.boolean(), (thing, isOpen) => {
      assert.deepEqual(now.decode(now.encode({ ...thing, isOpen })), { ...thing, isOpen });
      assert.deepEqual(now.decode(before.encode(thing)), { ...thing, isOpen: true });
    }),
  );
});

test("what is no row of these fields is no record", () => {
  const row = ["n", "a", 1, null, [{ code: "c", atMs: 1 }], { x: 1 }];
  assert.ok(before.decode(JSON.stringify(row)) !== undefined);
  const wrong: readonly [number, unknown][] = [
    [0, 1],
    [1, "c"],
    [2, 1.5],
    [2, null],
    [3, "1"],
    [4, [{ code: "c" }]],
    [4, {}],
    [5, { x: "1" }],
    [5, []],
  ];
  for (const [at, value] of wrong) {
    assert.equal(before.decode(JSON.stringify(row.with(at, value as never))), undefined);
  }
  for (const text of ["", "{}", "[]", JSON.stringify([...row, true, 1])]) {
    assert.equal(now.decode(text), undefined);
  }
});
