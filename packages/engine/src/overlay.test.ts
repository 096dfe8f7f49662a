import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type OpKind, opKinds } from "./batch-codec.ts";
import { Overlay } from "./overlay.ts";

function setup(): {
  overlay: Overlay;
  apply: (kind: OpKind, key: string, value?: string) => void;
  net: () => unknown[];
} {
  const overlay = new Overlay();
  let index = 0;
  const apply = (kind: OpKind, key: string, value = ""): void => {
    index += 1;
    const buffer = Buffer.from(value);
    overlay.apply(kind, key, { buffer, start: 0, end: buffer.length }, index);
  };
  const net = (): unknown[] =>
    [...overlay.entries].map(([key, { value, born, index: at }]) => [
      key,
      value?.toString(),
      born,
      at,
    ]);
  return { overlay, apply, net };
}

const { put, create, delete: remove } = opKinds;

test("a key that is created and deleted leaves nothing behind", () => {
  const { apply, net } = setup();
  apply(create, "a", "1");
  apply(put, "a", "2");
  apply(remove, "a");
  assert.deepEqual(net(), []);
});

test("a key that was there before leaves a tombstone", () => {
  const { apply, net } = setup();
  apply(put, "a", "1");
  apply(remove, "a");
  apply(remove, "b");
  assert.deepEqual(net(), [
    ["a", undefined, false, 2],
    ["b", undefined, false, 3],
  ]);
});

test("a key that comes back after its deletion is not new, so that deleting it again is kept", () => {
  const { apply, net } = setup();
  apply(remove, "a");
  apply(create, "a", "1");
  assert.deepEqual(net(), [["a", "1", false, 2]]);
  apply(remove, "a");
  assert.deepEqual(net(), [["a", undefined, false, 3]]);
});

test("a new key stays new however often it is written, and remembers who wrote it last", () => {
  const { apply, net } = setup();
  apply(create, "a", "1");
  apply(put, "a", "2");
  assert.deepEqual(net(), [["a", "2", true, 2]]);
});

test("a key that is created, deleted and created again is new", () => {
  const { apply, net } = setup();
  apply(create, "a", "1");
  apply(remove, "a");
  apply(create, "a", "2");
  assert.deepEqual(net(), [["a", "2", true, 3]]);
});

test("an empty value is a value", () => {
  const { overlay, apply } = setup();
  apply(put, "a", "");
  assert.equal(overlay.entries.get("a")?.value?.length, 0);
});

test("a range is what lies strictly between its ends, in order, deletions included", () => {
  const { overlay, apply } = setup();
  for (const key of ["d", "a", "c", "b", "ab", "e"]) apply(put, key, key);
  apply(remove, "c");
  assert.deepEqual(
    overlay.range("a", "d").map(([key]) => key),
    ["ab", "b", "c"],
  );
});

test("the memory it claims to hold grows with what is written and never shrinks", () => {
  const { overlay, apply } = setup();
  let before = overlay.bytes;
  for (const kind of [create, put, remove]) {
    apply(kind, "a", "x".repeat(1000));
    assert.ok(overlay.bytes > before);
    before = overlay.bytes;
  }
});

test("on top of what was there, the net effect is the same as doing everything in turn", () => {
  const step = fc.tuple(fc.constantFrom("a", "b", "c"), fc.boolean());
  fc.assert(
    fc.property(
      fc.subarray(["a", "b", "c"]),
      fc.array(step, { maxLength: 12 }),
      (present, steps) => {
        const { overlay, apply } = setup();
        const model = new Map(present.map((key) => [key, "old"]));
        const before = new Map(model);
        steps.forEach(([key, writes], at) => {
          const kind = model.has(key) ? put : create;
          if (writes) {
            apply(kind, key, String(at));
            model.set(key, String(at));
          } else if (model.has(key)) {
            apply(remove, key);
            model.delete(key);
          }
        });
        const after = new Map(before);
        for (const [key, { value, born }] of overlay.entries) {
          assert.equal(born, value !== undefined && !before.has(key));
          if (value === undefined) after.delete(key);
          else after.set(key, value.toString());
        }
        assert.deepEqual([...after].sort(), [...model].sort());
      },
    ),
  );
});
