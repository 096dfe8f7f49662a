import assert from "node:assert/strict";
import { test } from "node:test";
import { FaultError } from "@codeq/engine";
import type { TaskId, TenantId, WorkerId } from "@codeq/queue";
import fc from "fast-check";
import { anyExtras, anyTask } from "../../../test/any-task.ts";
import type { Refused } from "../broker/verbs.ts";
import { MessageReader, MessageWriter } from "./message.ts";
import {
  readClaim,
  readClaimed,
  readHead,
  readNewTask,
  readOwned,
  readRefused,
  readSubmission,
  writeClaim,
  writeClaimed,
  writeHead,
  writeNewTask,
  writeOwned,
  writeRefused,
  writeSubmission,
} from "./wire.ts";

/** Texts with halves of surrogate pairs among them. */
const text = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((c) => String.fromCharCode(c)),
});
const whole = fc.maxSafeNat();

function roundTrip<T>(
  value: T,
  write: (to: MessageWriter, value: T) => void,
  read: (from: MessageReader) => T,
): T {
  const to = new MessageWriter();
  to.byte(7);
  write(to, value);
  to.text("end");
  const from = new MessageReader(to.take());
  assert.equal(from.byte(), 7);
  const found = read(from);
  assert.equal(from.text(), "end");
  assert.ok(from.isAtEnd);
  return found;
}

test("numbers, texts and flags come out as they went in", () => {
  const number = fc.oneof(fc.double(), fc.constantFrom(Infinity, -Infinity, Number.NaN, -0));
  fc.assert(
    fc.property(fc.array(fc.tuple(whole, number, text, fc.boolean())), (all) => {
      const to = new MessageWriter();
      for (const [count, any, words, flag] of all) {
        to.number(count);
        to.double(any);
        to.text(words);
        to.flag(flag);
      }
      const from = new MessageReader(to.take());
      for (const [count, any, words, flag] of all) {
        assert.equal(from.number(), count);
        assert.ok(Object.is(from.double(), any));
        assert.equal(from.text(), words);
        assert.equal(from.flag(), flag);
      }
      assert.ok(from.isAtEnd);
    }),
  );
});

test("a text of a megabyte arrives, and the next message begins anew", () => {
  const to = new MessageWriter();
  const large = "ä".repeat(1024 * 1024);
  to.text(large);
  const first = to.take();
  to.text("small");
  assert.equal(new MessageReader(first).text(), large);
  assert.equal(new MessageReader(to.take()).text(), "small");
  assert.equal(to.bytes, 0);
});

test("what another writer has is appended, and taken from it", () => {
  const [to, other] = [new MessageWriter(), new MessageWriter()];
  other.text("b".repeat(100_000));
  to.text("a");
  to.append(other);
  to.append(other);
  assert.equal(other.bytes, 0);
  const from = new MessageReader(to.take());
  assert.equal(from.text(), "a");
  assert.equal(from.text().length, 100_000);
  assert.ok(from.isAtEnd);
});

test("a message that is cut anywhere is not taken for a whole one", () => {
  const to = new MessageWriter();
  to.number(300);
  to.text("some words");
  to.double(1.5);
  const bytes = to.take();
  for (let end = 0; end < bytes.length; end += 1) {
    const from = new MessageReader(bytes.subarray(0, end));
    assert.throws(() => {
      from.number();
      from.text();
      from.double();
    });
  }
});

test("new tasks come out as they went in", () => {
  const task = fc.record(
    {
      tenantId: text.map((each) => each as TenantId),
      command: text,
      priority: fc.double(),
      webhook: text,
      traceParent: text,
      traceState: text,
      idempotencyKey: text,
      payload: text,
      payloadBytes: whole,
      payloadHash: text,
      maxAttempts: whole,
      visibleMs: fc.option(fc.double({ noNaN: true }), { nil: undefined }),
      extras: anyExtras,
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(task, (each) => {
      assert.deepEqual(roundTrip(each, writeNewTask, readNewTask), each);
    }),
  );
});

test("claims, owners, submissions and heads come out as they went in", () => {
  const queues = fc.option(fc.array(text), { nil: undefined });
  const leaseMs = fc.constantFrom(1, 60_000, Infinity);
  fc.assert(
    fc.property(text, queues, leaseMs, whole, (words, names, ms, count) => {
      const tenantId = words as TenantId;
      const workerId = `w${words}` as WorkerId;
      const claim = { tenantId, workerId, queues: names, leaseMs: ms, count, waitMs: 0 };
      assert.deepEqual(roundTrip(claim, writeClaim, readClaim), claim);
      for (const leaseToken of [undefined, 0, count]) {
        const owned = { tenantId, id: words as TaskId, owner: { workerId, leaseToken } };
        assert.deepEqual(roundTrip(owned, writeOwned, readOwned), owned);
      }
      const artifacts = (names ?? []).map((name) => ({ name, url: words }));
      for (const how of ["completed", "failed"] as const) {
        const result = { json: words, artifacts };
        const submission = { how, error: words, result, resultBytes: count };
        assert.deepEqual(roundTrip(submission, writeSubmission, readSubmission), submission);
      }
      const head = { carriedOut: count, undecided: [1, count], isOverloaded: count % 2 === 0 };
      assert.deepEqual(roundTrip(head, writeHead, readHead), head);
    }),
  );
});

test("tasks come out as they went in, with payloads that are kept apart or not", () => {
  fc.assert(
    fc.property(anyTask, text, (task, payload) => {
      for (const each of [
        { task, payload },
        { task, payload: task.payload ?? "" },
      ]) {
        assert.deepEqual(roundTrip(each, writeClaimed, readClaimed), each);
      }
    }),
  );
});

test("refusals keep their codes", () => {
  const exceeded = { quota: "pendingTasks", limit: 3, current: 3 } as const;
  for (const why of [{ code: "not_owner" }, { code: "quota_exceeded", exceeded }] as Refused[]) {
    assert.deepEqual(roundTrip(why, writeRefused, readRefused), why);
  }
  const fault = roundTrip<Refused>(
    new FaultError("disk_full", "no room"),
    writeRefused,
    readRefused,
  );
  assert.ok(fault instanceof FaultError);
  assert.deepEqual([fault.code, fault.message], ["disk_full", "no room"]);
});
