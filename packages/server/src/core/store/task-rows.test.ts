import assert from "node:assert/strict";
import { test } from "node:test";
import { type KeyWrites, recordOf, writeIndexKeys } from "@codeq/engine";
import { noExtras, type Task } from "@codeq/queue";
import fc from "fast-check";
import { anyPlace, anyTask } from "../../../test/any-task.ts";
import { fingerprintOf } from "../records/failure-fingerprint.ts";
import { sortable, taskKey } from "./keys.ts";
import { keysOf, taskRows } from "./task-rows.ts";

/** Keys that refuse what a correct writer never does. */
class Keys implements KeyWrites {
  readonly held: Map<string, string> = new Map();

  put(key: string, value: Buffer): void {
    assert.ok(!this.held.has(key), `${key} is entered twice`);
    this.held.set(key, value.toString());
  }

  del(key: string): void {
    assert.ok(this.held.delete(key), `${key} is left but not there`);
  }
}

const plain = fc.sample(anyTask, { seed: 1, numRuns: 1 })[0]!;
const task = (place: Task["place"]): Task => ({
  ...plain,
  tenantId: "acme" as Task["tenantId"],
  command: "Work",
  priority: 7,
  extras: undefined,
  schedule: undefined,
  place,
});
const workerId = "w" as Extract<Task["place"], { in: "leased" }>["workerId"];

test("every place has its keys, and no other", () => {
  const { id } = plain;
  const at = (ms: number): string => `${sortable(ms)}/${id}`;
  const group = fingerprintOf("");
  const failure = [
    `codeq/failures/acme/${group}/work/${id}`,
    `codeq/failure-times/acme/${group}/${at(1)}`,
  ];
  const cases: [Task["place"], string[]][] = [
    [{ in: "ready", seq: 5 }, [`codeq/q/work/acme/pending/2/${at(5)}`]],
    [{ in: "delayed", dueMs: 6 }, [`codeq/q/work/acme/delayed/${at(6)}`]],
    [
      { in: "leased", workerId, untilMs: 1, leaseMs: 1, sinceMs: 0 },
      [`codeq/q/work/acme/inprog/${id}`],
    ],
    [{ in: "dead", atMs: 1, expiresMs: undefined }, [`codeq/q/work/acme/dlq/${id}`, ...failure]],
    [
      { in: "dead", atMs: 1, expiresMs: 9 },
      [`codeq/q/work/acme/dlq/${id}`, ...failure, `codeq/ttl/${at(9)}`],
    ],
    [
      { in: "done", how: "failed", workerId, startedMs: 1, atMs: 1, expiresMs: 9 },
      [`codeq/q/work/acme/failed/${id}`, ...failure, `codeq/ttl/${at(9)}`],
    ],
    [
      { in: "done", how: "cancelled", workerId, startedMs: 1, atMs: 1, expiresMs: 9 },
      [`codeq/ttl/${at(9)}`],
    ],
  ];
  for (const [place, keys] of cases) assert.deepEqual(keysOf(task(place)), keys);
  const schedule = { id: "daily", forMs: 8, kind: "fired" } as const;
  const run = `codeq/schedule-runs/acme/daily/${at(8)}`;
  for (const [place, keys] of cases) {
    const hasEnded = place.in === "done" || place.in === "dead";
    const live = hasEnded ? [] : [`codeq/schedule-live/acme/daily/${id}`];
    assert.deepEqual(keysOf({ ...task(place), schedule }), [...keys, run, ...live]);
    const backfill = { ...schedule, kind: "backfill" } as const;
    assert.deepEqual(keysOf({ ...task(place), schedule: backfill }), [...keys, run]);
  }
  const extras = { ...noExtras, startByMs: 7 };
  for (const [place, keys] of cases) {
    const isWaiting = place.in === "ready" || place.in === "delayed";
    const more = isWaiting ? [`codeq/start-by/${at(7)}`] : [];
    assert.deepEqual(keysOf({ ...task(place), extras }), [...keys, ...more]);
  }
  assert.deepEqual(keysOf({ ...task({ in: "ready", seq: 5 }), tenantId: "" as Task["tenantId"] }), [
    `codeq/q/work/_/pending/2/${at(5)}`,
  ]);
});

test("through any places, the keys are those of the record, written and deleted exactly once", () => {
  fc.assert(
    fc.property(anyTask, fc.array(anyPlace, { maxLength: 8 }), (first, places) => {
      const keys = new Keys();
      let below: Task | undefined;
      for (const place of [first.place, ...places]) {
        const row: Task = { ...first, place };
        writeIndexKeys(keys, { row, below }, taskRows);
        below = row;
        assert.deepEqual([...keys.held.keys()].sort(), keysOf(row).sort());
        for (const key of keysOf(row)) assert.equal(keys.held.get(key), first.tenantId);
      }
      writeIndexKeys(keys, { row: undefined, below }, taskRows);
      assert.deepEqual([...keys.held], []);
    }),
  );
});

test("a task is found under its id, and its record has the same index keys", () => {
  fc.assert(
    fc.property(anyTask, fc.option(anyTask, { nil: undefined }), (any, other) => {
      assert.equal(taskRows.prefix + taskRows.idOf(any), taskKey(any.id));
      const record = recordOf(any, taskRows);
      const row = taskRows.read(record, 0, record.length, any.id, undefined);
      assert.deepEqual(row, any);
      assert.deepEqual(taskRows.keysOf(row as Task), keysOf(any));
      // And what changed makes it of any other state.
      const before = other && { ...other, id: any.id };
      const buffer = Buffer.alloc(taskRows.bytesMaxOf(any, before));
      const end = taskRows.write(buffer, 0, any, before);
      assert.deepEqual(taskRows.read(buffer, 0, end, any.id, before), any);
    }),
  );
});

test("no index key looks like the record of a task", () => {
  fc.assert(
    fc.property(anyTask, (any) => {
      for (const key of keysOf(any)) assert.ok(!key.startsWith(taskRows.prefix));
    }),
  );
});

test("in whatever range an index key lies, its task is among those that may have one there", () => {
  const key = fc.constantFrom(
    "",
    "codeq/",
    "codeq/q/",
    "codeq/q/work/",
    "codeq/start-by/",
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
          const mayHave = taskRows.rowsIn({ after, before });
          const lies = keysOf(any).some((each) => each > after && each < before);
          if (lies) assert.ok(mayHave?.(any), `${keysOf(any)} between ${after} and ${before}`);
        }
      }
    }),
  );
  for (const after of ["codeq/audit/all/", "codeq/keys/", "codeq/webhook/", "codeq/tasks/"]) {
    assert.equal(taskRows.rowsIn({ after, before: `${after}~` }), undefined);
  }
});

test("a change that stays in its place writes no index key", () => {
  const before = task({ in: "leased", workerId, untilMs: 1, leaseMs: 1, sinceMs: 0 });
  const after = task({ in: "leased", workerId, untilMs: 2, leaseMs: 1, sinceMs: 0 });
  assert.equal(writeIndexKeys(new Keys(), { row: after, below: before }, taskRows), 0);
});
