import assert from "node:assert/strict";
import { test } from "node:test";
import type { Op } from "@codeq/engine";
import type { Task } from "@codeq/queue";
import fc from "fast-check";
import { anyPlace, anyTask } from "../../test/any-task.ts";
import { idempotencyKeyOf, payloadKey, resultKey, sortable, taskKey } from "./keys.ts";
import { addChange, addRemoval, keysOf, taskIndexing } from "./keys-of.ts";
import { decodeTask, encodeTask } from "./task-codec.ts";

/** The kinds as the engine numbers them. */
const kinds = { put: 1, create: 2, delete: 3 } as const;

/** A map that refuses what a correct writer never does, with the index keys that follow from rows. */
function setup(): { keys: Map<string, string>; apply: (ops: readonly Op[]) => void } {
  const keys = new Map<string, string>();
  const apply = (ops: readonly Op[]): void => {
    for (const { kind, key, value, row, before } of ops) {
      for (const old of before === undefined ? [] : taskIndexing.keysOf(before)) {
        assert.ok(keys.delete(old), `${old} is left but not there`);
      }
      for (const added of row === undefined ? [] : taskIndexing.keysOf(row)) {
        assert.ok(!keys.has(added), `${added} is entered twice`);
        keys.set(added, taskIndexing.valueOf(row as Task).toString());
      }
      if (kind === kinds.create) assert.ok(!keys.has(key), `${key} is created twice`);
      if (kind === kinds.put) assert.ok(keys.has(key), `${key} is replaced before it is there`);
      if (kind === kinds.delete) {
        assert.ok(keys.delete(key), `${key} is deleted but not there`);
        continue;
      }
      keys.set(key, Buffer.from(value as string).toString());
    }
  };
  return { keys, apply };
}

const plain = fc.sample(anyTask, { seed: 1, numRuns: 1 })[0]!;
const task = (place: Task["place"]): Task => ({
  ...plain,
  tenantId: "acme" as Task["tenantId"],
  command: "Work",
  priority: 7,
  place,
});
const workerId = "w" as Extract<Task["place"], { in: "leased" }>["workerId"];

test("every place has its keys, and no other", () => {
  const { id } = plain;
  const at = (ms: number): string => `${sortable(ms)}/${id}`;
  const cases: [Task["place"], string[]][] = [
    [{ in: "ready", seq: 5 }, [`codeq/q/work/acme/pending/2/${at(5)}`]],
    [{ in: "delayed", dueMs: 6 }, [`codeq/q/work/acme/delayed/${at(6)}`]],
    [{ in: "leased", workerId, untilMs: 1, leaseMs: 1 }, [`codeq/q/work/acme/inprog/${id}`]],
    [{ in: "dead", atMs: 1, expiresMs: undefined }, [`codeq/q/work/acme/dlq/${id}`]],
    [{ in: "dead", atMs: 1, expiresMs: 9 }, [`codeq/q/work/acme/dlq/${id}`, `codeq/ttl/${at(9)}`]],
    [{ in: "done", how: "failed", workerId, atMs: 1, expiresMs: 9 }, [`codeq/ttl/${at(9)}`]],
  ];
  for (const [place, keys] of cases) assert.deepEqual(keysOf(task(place)), keys);
  assert.deepEqual(keysOf({ ...task({ in: "ready", seq: 5 }), tenantId: "" as Task["tenantId"] }), [
    `codeq/q/work/_/pending/2/${at(5)}`,
  ]);
});

test("through any places, the keys are those of the record, written and deleted exactly once", () => {
  fc.assert(
    fc.property(anyTask, fc.array(anyPlace, { maxLength: 8 }), (first, places) => {
      const { keys, apply } = setup();
      let current: Task | undefined;
      for (const place of [first.place, ...places]) {
        const after: Task = { ...first, place };
        const ops: Op[] = [];
        addChange(ops, current, after);
        apply(ops);
        current = after;
        assert.deepEqual([...keys.keys()].sort(), [taskKey(first.id), ...keysOf(after)].sort());
        for (const key of keysOf(after)) assert.equal(keys.get(key), first.tenantId);
        assert.deepEqual(decodeTask(Buffer.from(keys.get(taskKey(first.id))!)), after);
      }
    }),
  );
});

test("the text of a record has the same index keys as the task, also in the format before", () => {
  fc.assert(
    fc.property(anyTask, (any) => {
      const text = encodeTask(any, "");
      const row = taskIndexing.rowOf(text)!;
      assert.deepEqual(taskIndexing.keysOf(row), keysOf(any));
      const format1 = JSON.stringify(JSON.parse(text.slice(0, text.indexOf("\n"))).slice(0, -1));
      assert.deepEqual(taskIndexing.rowOf(format1), row);
    }),
  );
});

test("in whatever range an index key lies, its task is among those that may have one there", () => {
  const key = fc.constantFrom(
    "",
    "codeq/",
    "codeq/q/",
    "codeq/q/work/",
    "codeq/ttl/",
    "codeq/ttm",
    "~",
  );
  fc.assert(
    fc.property(anyTask, anyTask, key, key, (any, other, from, to) => {
      const [own = "", expiry = own] = keysOf(any);
      const [others = ""] = keysOf(other);
      const ends = [own, expiry, others].flatMap((each) => [
        each,
        each.slice(0, each.lastIndexOf("/") + 1),
        each.slice(0, each.split("/", 5).join("/").length + 1),
      ]);
      for (const after of [...ends, from]) {
        for (const before of [...ends, to].map((each) => `${each}~`)) {
          const mayHave = taskIndexing.rowsIn({ after, before });
          const lies = keysOf(any).some((each) => each > after && each < before);
          if (lies) assert.ok(mayHave?.(any), `${keysOf(any)} between ${after} and ${before}`);
        }
      }
    }),
  );
  for (const after of ["codeq/audit/all/", "codeq/keys/", "codeq/webhook/", "codeq/tasks/"]) {
    assert.equal(taskIndexing.rowsIn({ after, before: `${after}~` }), undefined);
  }
});

test("a change that stays in its place writes the record alone", () => {
  const before = task({ in: "leased", workerId, untilMs: 1, leaseMs: 1 });
  const ops: Op[] = [];
  addChange(ops, before, task({ in: "leased", workerId, untilMs: 2, leaseMs: 1 }));
  assert.deepEqual(
    ops.map(({ kind, key }) => [kind, key]),
    [[kinds.put, taskKey(before.id)]],
  );
});

test("a removal leaves nothing of a task", () => {
  fc.assert(
    fc.property(anyTask, (removed) => {
      const { keys, apply } = setup();
      const ops: Op[] = [];
      addChange(ops, undefined, removed);
      apply(ops);
      if (removed.payload === undefined) keys.set(payloadKey(removed.id), "{}");
      keys.set(resultKey(removed.id), "{}");
      if (removed.idempotencyKey !== "") {
        keys.set(idempotencyKeyOf(removed.tenantId, removed.idempotencyKey), "[]");
      }
      const removal: Op[] = [];
      addRemoval(removal, removed);
      apply(removal);
      assert.deepEqual([...keys], []);
    }),
  );
});
