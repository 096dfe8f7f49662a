import assert from "node:assert/strict";
import { test } from "node:test";
import type { Task, TaskId, TenantId, WorkerId } from "@codeq/queue";
import fc from "fast-check";
import { anyResult, anyTask } from "../../test/any-task.ts";
import {
  decodeIdempotency,
  decodeResult,
  decodeTask,
  encodeIdempotency,
  encodeResult,
  encodeTask,
  isPayloadApart,
  resultIn,
} from "./task-codec.ts";

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
    payload: undefined,
    maxAttempts: 3,
    attempts: 1,
    handBacks: 0,
    leaseToken: 2,
    error: "broken",
    createdMs: 1,
    updatedMs: 2,
    storedBytes: 6,
    place: { in: "leased", workerId: "w" as WorkerId, untilMs: 9, leaseMs: 7 },
  };
}

/** The array at the start of a record. */
function row(task: Task): string {
  return encodeTask(task, "").split("\n", 1)[0] as string;
}

test("any task comes back as it went in, and the result that travels with it", () => {
  fc.assert(
    fc.property(anyTask, fc.option(anyResult), (task, result) => {
      const encoded = result === null ? "" : encodeResult(result);
      const text = Buffer.from(encodeTask(task, encoded)).toString();
      assert.deepEqual(decodeTask(text), task);
      assert.equal(resultIn(text) ?? "", encoded);
      assert.equal(isPayloadApart(text), task.payload === undefined);
    }),
    { numRuns: 500 },
  );
});

test("a record of the first format, which is the array alone, has payload and result apart", () => {
  const text = encodeTask(setup(), "").split("\n", 1)[0] as string;
  assert.deepEqual(decodeTask(text), setup());
  assert.equal(resultIn(text), undefined);
  assert.ok(isPayloadApart(text));
});

test("any result comes back as it went in", () => {
  fc.assert(
    fc.property(anyResult, (result) => {
      assert.deepEqual(decodeResult(Buffer.from(encodeResult(result))), result);
    }),
    { numRuns: 500 },
  );
});

test("the bytes of a record do not change between versions of the server", () => {
  assert.equal(
    encodeTask({ ...setup(), payload: '{"a": 1}' }, '["r"]'),
    '["018bcfe5-6800-7000-8bb7-15228d999bdd","acme","Work",5,"https://example.com","00-1","","key",' +
      '3,1,0,2,"broken",1,2,"l","w",9,7,6]\n["r"]\n{"a": 1}',
  );
});

test("fields that a later version adds at the end are passed over", () => {
  const task = setup();
  const longer = encodeTask(task, "").replace(/]\n\n$/, ',"new",{"field":[1]}]\n\n');
  assert.deepEqual(decodeTask(Buffer.from(longer)), task);
});

test("a task that was cut, retyped, emptied or is no array at all is not a task", () => {
  const text = row(setup());
  for (let length = 0; length < text.length; length += 1) {
    assert.equal(decodeTask(Buffer.from(text.slice(0, length))), undefined, text.slice(0, length));
  }
  const cells = JSON.parse(text) as unknown[];
  for (let position = 0; position < cells.length; position += 1) {
    for (const wrong of [null, true, {}, [], typeof cells[position] === "string" ? 1 : "1"]) {
      const damaged = JSON.stringify(cells.with(position, wrong));
      assert.equal(decodeTask(Buffer.from(damaged)), undefined, damaged);
    }
    const short = JSON.stringify(cells.slice(0, position));
    assert.equal(decodeTask(Buffer.from(short)), undefined, short);
  }
  for (const wrong of ["", "{}", "null", "1", "[]", '"r"', "\u0000", "[[]]"]) {
    assert.equal(decodeTask(Buffer.from(wrong)), undefined);
  }
});

test("every place is checked: its kind and each of its fields", () => {
  const start = JSON.stringify([...(JSON.parse(row(setup())) as unknown[]).slice(0, 15)]);
  const withPlace = (cells: unknown[]): Buffer =>
    Buffer.from(`${start.slice(0, -1)},${JSON.stringify([...cells, 6]).slice(1)}`);
  for (const good of [
    ["r", 1],
    ["w", 1],
    ["l", "w", 1, 2],
    ["d", 1, null],
    ["d", 1, 2],
    ["c", "w", 1, 2],
  ]) {
    assert.ok(decodeTask(withPlace(good)), JSON.stringify(good));
  }
  const bad = [
    ["x", 1],
    ["r"],
    ["r", "1"],
    ["w", null],
    ["l", 1, 1, 2],
    ["l", "w", 1],
    ["d", null],
  ];
  for (const each of [...bad, ["d", 1, "2"], ["c", "w", 1], ["f", "w", "1", 2], [1, 1], []]) {
    assert.equal(decodeTask(withPlace(each)), undefined, JSON.stringify(each));
  }
});

test("a result that was cut, retyped or has a status that is none is not a result", () => {
  const result = {
    taskId: setup().id,
    status: "FAILED" as const,
    resultJson: "{}",
    error: "e",
    artifacts: [{ name: "n", url: "u" }],
    attempts: 1,
    completedMs: 2,
  };
  const text = encodeResult(result);
  for (let length = 0; length < text.length; length += 1) {
    assert.equal(decodeResult(Buffer.from(text.slice(0, length))), undefined);
  }
  const row = JSON.parse(text) as unknown[];
  for (let position = 0; position < row.length; position += 1) {
    for (const wrong of [null, {}, typeof row[position] === "string" ? 1 : "1"]) {
      assert.equal(decodeResult(Buffer.from(JSON.stringify(row.with(position, wrong)))), undefined);
    }
  }
  for (const wrong of [[1], [["n"]], [["n", 1]], [[]], "no"]) {
    assert.equal(decodeResult(Buffer.from(JSON.stringify(row.with(6, wrong)))), undefined);
  }
  assert.equal(decodeResult(Buffer.from(JSON.stringify(row.with(1, "x")))), undefined);
});

test("an idempotency entry comes back, and damage is noticed", () => {
  const entry = { taskId: setup().id, queue: "work", payloadHash: "h" };
  const text = encodeIdempotency(entry);
  assert.deepEqual(decodeIdempotency(Buffer.from(text)), entry);
  for (const wrong of ["", "[]", '["a"]', '["a","b"]', '["a","b",1]', "{}", text.slice(1)]) {
    assert.equal(decodeIdempotency(Buffer.from(wrong)), undefined);
  }
});
