import assert from "node:assert/strict";
import { test } from "node:test";
import type { ResultBody, Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import fc from "fast-check";
import { anyPlace, anyResult, anyTask } from "../../../test/any-task.ts";
import { isShort, isShortResult } from "./short-texts.ts";
import { decodeResult, encodeResult, readTask, taskBytesMax, writeTask } from "./task-codec.ts";

function setup(): Task {
  return {
    id: "018bcfe5-6800-7000-8bb7-15228d999bdd" as TaskId,
    tenantId: "acme" as TenantId,
    command: "Work",
    priority: 5,
    webhook: "https://example.com",
    traceParent: "00-1",
    traceState: "",
    idempotencyKey: "key",
    payload: '{"a": 1}',
    maxAttempts: 3,
    attempts: 1,
    handBacks: 0,
    replays: 0,
    cancelMs: 0,
    leaseToken: 2,
    error: "broken",
    createdMs: 1,
    updatedMs: 2,
    storedBytes: 6,
    place: { in: "leased", workerId: "w" as WorkerId, untilMs: 9, leaseMs: 7, sinceMs: 2 },
    result: undefined,
    extras: undefined,
    repairs: undefined,
    trail: undefined,
    schedule: undefined,
    unique: undefined,
    batch: undefined,
    lane: undefined,
  };
}

/** The record of a task, or of a change, written into the middle of other bytes. */
function recordOf(task: Task, before?: Task): Buffer {
  const around = 5;
  const room = taskBytesMax(task);
  const buffer = Buffer.alloc(room + 2 * around, 0xa5);
  const end = writeTask(buffer, around, task, before);
  assert.ok(end - around <= room, `${end - around} bytes instead of ${room}`);
  const untouched = [...buffer.subarray(0, around), ...buffer.subarray(around + room)];
  assert.ok(untouched.every((byte) => byte === 0xa5));
  return Buffer.from(buffer.subarray(around, end));
}

/** Reads from the middle of other bytes. */
function read(record: Buffer, id: TaskId, before?: Task): Task | undefined {
  const buffer = Buffer.concat([Buffer.alloc(3, 0xff), record, Buffer.alloc(3, 0xff)]);
  return readTask({ buffer, start: 3, end: 3 + record.length }, id, before);
}

/** The same task in some other state. */
const anyLife = fc
  .tuple(anyTask, fc.array(anyTask, { minLength: 1, maxLength: 5 }))
  .map(([first, others]) => {
    const { id, tenantId, maxAttempts } = first;
    return [first, ...others.map((each) => ({ ...each, id, tenantId, maxAttempts }))];
  });

test("any task comes back as it went in, with the result that travels with it", () => {
  fc.assert(
    fc.property(anyTask, (task) => {
      assert.deepEqual(read(recordOf(task), task.id), task);
    }),
    { numRuns: 1000 },
  );
});

test("what changed, applied to any earlier state of the task, gives the task", () => {
  fc.assert(
    fc.property(anyLife, (states) => {
      let stored: Task | undefined;
      for (const [at, state] of states.entries()) {
        stored = read(recordOf(state, states[at - 1]), state.id, stored);
        assert.deepEqual(stored, state);
      }
    }),
    { numRuns: 500 },
  );
});

test("a change of one field holds that field alone, and a change of nothing nothing", () => {
  const task = setup();
  assert.equal(recordOf(task, task).toString("hex"), "0100000000");
  assert.deepEqual(read(recordOf(task, task), task.id, task), task);
  const later = { ...task, updatedMs: 3 };
  assert.equal(recordOf(later, task).length, 5 + 1);
  assert.deepEqual(read(recordOf(later, task), task.id, task), later);
});

test("every field can change back to nothing", () => {
  const task: Task = { ...setup(), result: { json: "{}", artifacts: [] }, traceState: "v=1" };
  const bare: Task = {
    ...task,
    ...{ priority: 0, webhook: "", traceParent: "", traceState: "", idempotencyKey: "" },
    ...{ payload: undefined, attempts: 0, handBacks: 0, leaseToken: 0, error: "" },
    ...{ createdMs: 0, updatedMs: 0, storedBytes: 0, result: undefined },
    place: { in: "ready", seq: 0 },
  };
  assert.deepEqual(read(recordOf(bare, task), task.id, task), bare);
  assert.deepEqual(read(recordOf(task, bare), task.id, bare), task);
  assert.deepEqual(read(recordOf(bare), task.id), bare);
});

test("numbers up to the largest are kept in every field that holds one", () => {
  const most = Number.MAX_SAFE_INTEGER;
  const workerId = "w" as WorkerId;
  const places: Task["place"][] = [
    { in: "ready", seq: most },
    { in: "delayed", dueMs: most },
    { in: "leased", workerId, untilMs: most, leaseMs: most, sinceMs: most },
    { in: "dead", atMs: most, expiresMs: most },
    { in: "dead", atMs: most, expiresMs: 0 },
    { in: "dead", atMs: most, expiresMs: undefined },
    { in: "done", how: "completed", workerId, startedMs: most, atMs: most, expiresMs: most },
    { in: "done", how: "failed", workerId, startedMs: most, atMs: most, expiresMs: most },
  ];
  for (const place of places) {
    const task: Task = {
      ...setup(),
      ...{ maxAttempts: most, attempts: most, handBacks: most, leaseToken: most },
      ...{ createdMs: most, updatedMs: most, storedBytes: most, place },
    };
    assert.deepEqual(read(recordOf(task), task.id), task);
  }
});

test("texts are kept at the lengths at which their form changes, whatever they are made of", () => {
  for (const unit of ["a", "é", "€", "\ud83d\ude00", "\ud800"]) {
    for (const length of [0, 1, 41, 42, 43, 44, 84, 85, 86, 512, 513]) {
      const text = unit.repeat(length);
      const task: Task = {
        ...setup(),
        ...{ webhook: text, traceParent: text, traceState: text, idempotencyKey: text },
        ...{ payload: text, error: text },
        tenantId: text as TenantId,
        command: text === "" ? "Work" : text,
        place: { in: "leased", workerId: text as WorkerId, untilMs: 9, leaseMs: 7, sinceMs: 2 },
        result: { json: text, artifacts: [{ name: text, url: text }] },
      };
      assert.deepEqual(read(recordOf(task), task.id), task);
      assert.deepEqual(read(recordOf(task, setup()), task.id, setup()), task);
    }
  }
});

test("the bytes of a record do not change between versions of the server", () => {
  const task: Task = { ...setup(), result: { json: "{}", artifacts: [{ name: "n", url: "u" }] } };
  const texts = (...each: string[]): string =>
    each.map((text) => `${Buffer.from([text.length]).toString("hex")}${hex(text)}`).join("");
  assert.equal(
    recordOf(task).toString("hex"),
    [
      "01dffb0300",
      texts("acme", "Work"),
      "05",
      texts("https://example.com", "00-1", "key"),
      `01${texts('{"a": 1}')}`,
      "030102",
      texts("broken"),
      "010206",
      `030907${texts("w")}`,
      `01${texts("{}")}01${texts("n", "u")}00`,
    ].join(""),
  );
});

function hex(text: string): string {
  return Buffer.from(text).toString("hex");
}

test("a record that was cut anywhere, or has more behind it, is not a task", () => {
  fc.assert(
    fc.property(anyTask, fc.option(anyTask), (task, other) => {
      const before = other === null ? undefined : { ...other, id: task.id };
      const record = recordOf(task, before);
      for (let length = 0; length < record.length; length += 1) {
        assert.equal(read(record.subarray(0, length), task.id, before), undefined);
      }
      for (const more of [[0], [1], [0xff, 0xff]]) {
        const longer = Buffer.concat([record, Buffer.from(more)]);
        assert.equal(read(longer, task.id, before), undefined);
      }
    }),
    { numRuns: 50 },
  );
});

test("a record of another version, or with columns that nobody knows, is not a task", () => {
  const task = setup();
  const record = recordOf(task);
  for (let version = 0; version < 256; version += 1) {
    const foreign = Buffer.from(record);
    foreign[0] = version;
    assert.equal(read(foreign, task.id) !== undefined, version === 1);
  }
  for (let column = 27; column < 32; column += 1) {
    const foreign = Buffer.from(record);
    foreign.writeUInt32LE((foreign.readUInt32LE(1) | (1 << column)) >>> 0, 1);
    assert.equal(read(foreign, task.id), undefined);
    assert.equal(read(Buffer.concat([foreign, Buffer.from([0])]), task.id), undefined);
  }
});

test("a change without the task that it applies to is not a task", () => {
  fc.assert(
    fc.property(anyLife, ([before, after]) => {
      assert.equal(read(recordOf(after as Task, before), (after as Task).id), undefined);
    }),
  );
});

test("a text of the format before is not a task", () => {
  for (const text of ['["018b","acme","Work",5]\n\n{}', "", "{}", "null", "\u0001", "\u0001[]"]) {
    assert.equal(read(Buffer.from(text), setup().id), undefined);
  }
});

test("a place that nobody knows, and a mark that is neither yes nor no, are noticed", () => {
  const task: Task = { ...setup(), result: { json: "", artifacts: [] } };
  const record = recordOf(task);
  const payloadAt = record.indexOf('{"a": 1}') - 2;
  const placeAt = record.length - 3 - 5;
  assert.deepEqual([record[payloadAt], record[placeAt], record.at(-3)], [1, 3, 1]);
  for (let value = 2; value < 256; value += 1) {
    assert.equal(read(withByte(record, payloadAt, value), task.id), undefined);
    assert.equal(read(withByte(record, record.length - 3, value), task.id), undefined);
    if (value > 7) assert.equal(read(withByte(record, placeAt, value), task.id), undefined);
  }
});

function withByte(record: Buffer, at: number, value: number): Buffer {
  const changed = Buffer.from(record);
  changed[at] = value;
  return changed;
}

/** Whether it is a task as far as its fields go: it can be written, and comes back the same. */
function assertWhole(task: Task | undefined): void {
  if (task === undefined) return;
  assert.notEqual(task.command, "");
  assert.deepEqual(read(recordOf(task), task.id), task);
}

test("whatever bytes there are, nothing is thrown, and what is read is a task or nothing", () => {
  const { id } = setup();
  const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array));
  fc.assert(
    fc.property(bytes, fc.option(anyTask, { nil: undefined }), (record, before) => {
      assertWhole(read(record, id, before));
      // Most begin with a version that nobody knows.
      assertWhole(read(Buffer.concat([Buffer.from([1]), record]), id, before));
      const few = Buffer.concat([Buffer.from([1, 0xff, 0xff, 0x03, 0]), record]);
      assertWhole(read(few, id, before));
    }),
    { numRuns: 2000 },
  );
});

test("a record with a flipped bit, or two that are swapped in part, never throw", () => {
  fc.assert(
    fc.property(anyTask, anyTask, fc.nat(), (task, other, cut) => {
      const [record, others] = [recordOf(task), recordOf(other)];
      const at = cut % record.length;
      for (let bit = 0; bit < 8; bit += 1) {
        const flipped = withByte(record, at, (record[at] as number) ^ (1 << bit));
        assertWhole(read(flipped, task.id));
      }
      assertWhole(read(Buffer.concat([record.subarray(0, at), others.subarray(at)]), task.id));
    }),
    { numRuns: 500 },
  );
});

test("any result comes back as it went in, and one that was cut is noticed", () => {
  fc.assert(
    fc.property(anyResult, (result) => {
      const bytes = encodeResult(result);
      assert.deepEqual(decodeResult(bytes), result);
      for (let length = 0; length < bytes.length; length += 1) {
        assert.equal(decodeResult(bytes.subarray(0, length)), undefined);
      }
      assert.equal(decodeResult(Buffer.concat([bytes, Buffer.from([0])])), undefined);
    }),
    { numRuns: 100 },
  );
});

test("whatever bytes there are, they are a result or nothing", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (array) => {
      for (const bytes of [Buffer.from(array), Buffer.from([1, ...array])]) {
        const result: ResultBody | undefined = decodeResult(bytes);
        if (result !== undefined) assert.deepEqual(decodeResult(encodeResult(result)), result);
      }
    }),
    { numRuns: 1000 },
  );
  assert.equal(decodeResult(Buffer.from([1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f])), undefined);
});

test("what is short travels with the task: 512 characters, and no artifacts", () => {
  assert.deepEqual([isShort("x".repeat(512)), isShort("x".repeat(513))], [true, false]);
  const json = "x".repeat(512);
  assert.ok(isShortResult({ json, artifacts: [] }));
  assert.ok(!isShortResult({ json: `${json}x`, artifacts: [] }));
  assert.ok(!isShortResult({ json: "{}", artifacts: [{ name: "n", url: "u" }] }));
});

test("a record depends on the values of a task and not on who made it", () => {
  fc.assert(
    fc.property(anyTask, anyPlace, (task, place) => {
      const [own, copy] = [
        recordOf({ ...task, place }),
        recordOf(structuredClone({ ...task, place })),
      ];
      assert.deepEqual(own, copy);
    }),
  );
});
