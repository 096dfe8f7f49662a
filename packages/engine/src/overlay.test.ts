import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type OpKind, opKinds } from "./batch-codec.ts";
import type { Row } from "./index-keys.ts";
import { Overlay } from "./overlay.ts";

interface Rows {
  readonly row?: Row;
  readonly before?: Row;
}

function setup(): {
  overlay: Overlay;
  apply: (kind: OpKind, key: string, value?: string, rows?: Rows) => void;
  net: () => unknown[];
} {
  const overlay = new Overlay();
  let index = 0;
  const apply = (kind: OpKind, key: string, value = "", rows: Rows = {}): void => {
    index += 1;
    const buffer = Buffer.from(value);
    const { row, before } = rows;
    overlay.apply({ kind, key, row, before }, { buffer, start: 0, end: buffer.length }, index);
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

/** Rows are told apart by identity. */
const [one, two, three] = [{ is: 1 }, { is: 2 }, { is: 3 }];

function rowsIn(overlay: Overlay): unknown[] {
  return [...overlay.entries].map(([key, { row, below }]) => [key, below, row]);
}

test("an entry has the newest row, and the one from before it", () => {
  const { overlay, apply } = setup();
  apply(put, "a", "", { row: two, before: one });
  apply(put, "a", "", { row: three, before: two });
  apply(create, "b", "", { row: one });
  apply(put, "b", "", { row: two, before: one });
  apply(remove, "c", "", { before: three });
  assert.deepEqual(rowsIn(overlay), [
    ["a", one, three],
    ["b", undefined, two],
    ["c", three, undefined],
  ]);
});

test("a row that comes and goes leaves nothing, one that was there leaves what it was", () => {
  const { overlay, apply } = setup();
  apply(create, "a", "", { row: one });
  apply(remove, "a", "", { before: one });
  apply(put, "b", "", { row: two, before: one });
  apply(remove, "b", "", { before: two });
  assert.deepEqual(rowsIn(overlay), [["b", one, undefined]]);
  apply(create, "b", "", { row: three });
  assert.deepEqual(rowsIn(overlay), [["b", one, three]]);
});

test("a value without a row leaves the rows as they are", () => {
  const { overlay, apply } = setup();
  apply(put, "a", "1", { row: two, before: one });
  apply(put, "a", "2");
  apply(put, "b", "1");
  apply(put, "b", "2", { row: two, before: one });
  assert.deepEqual(rowsIn(overlay), [
    ["a", one, two],
    ["b", one, two],
  ]);
});

test("a new record without a row leaves a trace when it goes, if index keys were logged with it", () => {
  const { overlay, apply } = setup();
  apply(create, "a", "1");
  apply(remove, "a", "", { before: one });
  assert.deepEqual(rowsIn(overlay), [["a", one, undefined]]);
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
