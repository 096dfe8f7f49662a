import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Op, opKinds } from "./batch-codec.ts";
import { Overlay } from "./overlay.ts";
import type { Row } from "./row-codec.ts";

function setup(): {
  overlay: Overlay;
  apply: (kind: Op["kind"], key: string, value?: string) => void;
  change: (id: string, before: Row | undefined, after: Row | undefined, keep?: boolean) => void;
  net: () => unknown[];
} {
  const overlay = new Overlay();
  let index = 0;
  const apply = (kind: Op["kind"], key: string, value = ""): void => {
    index += 1;
    const buffer = Buffer.from(value);
    overlay.apply({ kind, key }, { buffer, start: 0, end: buffer.length }, index);
  };
  const change = (
    id: string,
    before: Row | undefined,
    after: Row | undefined,
    keep = false,
  ): void => {
    index += 1;
    overlay.change(id, { before, after, keep }, index);
    overlay.logged(10);
  };
  const net = (): unknown[] =>
    [...overlay.entries].map(([key, { value, born, index: at }]) => [
      key,
      value?.toString(),
      born,
      at,
    ]);
  return { overlay, apply, change, net };
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
  return [...overlay.rows].map(([id, { row, below, born, index }]) => [
    id,
    below,
    row,
    born,
    index,
  ]);
}

test("an entry has the newest row, and the one from before it", () => {
  const { overlay, change } = setup();
  change("a", one, two);
  change("a", two, three);
  change("b", undefined, one);
  change("b", one, two);
  change("c", three, undefined);
  assert.deepEqual(rowsIn(overlay), [
    ["a", one, three, false, 2],
    ["b", undefined, two, true, 4],
    ["c", three, undefined, false, 5],
  ]);
  assert.equal(overlay.size, 3);
});

test("a row that comes and goes leaves nothing, one that was there leaves what it was", () => {
  const { overlay, change } = setup();
  change("a", undefined, one);
  change("a", one, undefined);
  change("b", one, two);
  change("b", two, undefined);
  assert.deepEqual(rowsIn(overlay), [["b", one, undefined, false, 4]]);
  change("b", undefined, three);
  assert.deepEqual(rowsIn(overlay), [["b", one, three, false, 5]]);
});

test("the last change says whether a row is worth keeping", () => {
  const { overlay, change } = setup();
  change("a", undefined, one, true);
  assert.equal(overlay.rows.get("a")?.keep, true);
  change("a", one, two);
  assert.equal(overlay.rows.get("a")?.keep, false);
  change("a", two, three, true);
  assert.equal(overlay.rows.get("a")?.keep, true);
});

test("a change that does not begin where the row is is a bug that shows at once", () => {
  const { change } = setup();
  change("a", undefined, one);
  assert.throws(() => change("a", undefined, two), { code: "ERR_ASSERTION" });
  change("b", one, undefined);
  assert.throws(() => change("b", one, two), { code: "ERR_ASSERTION" });
});

test("the memory it claims to hold grows with what is written and never shrinks", () => {
  const { overlay, apply, change } = setup();
  let before = overlay.bytes;
  for (const kind of [create, put, remove]) {
    apply(kind, "a", "x".repeat(1000));
    assert.ok(overlay.bytes > before);
    before = overlay.bytes;
  }
  for (const [from, to] of [
    [undefined, one],
    [one, two],
    [two, undefined],
  ] as const) {
    change("a", from, to);
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
