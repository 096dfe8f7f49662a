import assert from "node:assert/strict";
import { test } from "node:test";
import { FaultError } from "@codeq/engine";
import type { TaskId, TenantId, WorkerId } from "@codeq/queue";
import fc from "fast-check";
import { anyExtras, anyTask } from "../../../test/any-task.ts";
import type { Refused } from "../broker/verbs.ts";
import { ByteReader } from "../store/bytes.ts";
import { type Codec, double, flag, number, text as words } from "../store/codec.ts";
import { answers, calls, head, MessageWriter } from "./wire.ts";

/** Texts with halves of surrogate pairs among them. */
const text = fc.string({
  unit: fc.integer({ min: 0, max: 0xffff }).map((c) => String.fromCharCode(c)),
});
const whole = fc.maxSafeNat();

function roundTrip<T>(value: T, codec: Codec<T>): T {
  const to = new MessageWriter();
  to.put(number, 7);
  to.put(codec, value);
  to.put(words, "end");
  const from = ByteReader.of(to.take());
  assert.equal(from.number(), 7);
  const found = codec.read(from);
  assert.equal(from.text(), "end");
  assert.ok(from.isAtEnd);
  return found;
}

test("numbers, texts and flags come out as they went in", () => {
  const anyNumber = fc.oneof(fc.double(), fc.constantFrom(Infinity, -Infinity, Number.NaN, -0));
  fc.assert(
    fc.property(fc.array(fc.tuple(whole, anyNumber, text, fc.boolean())), (all) => {
      const to = new MessageWriter();
      for (const [count, any, some, isSo] of all) {
        to.put(number, count);
        to.put(double, any);
        to.put(words, some);
        to.put(flag, isSo);
      }
      const from = ByteReader.of(to.take());
      for (const [count, any, some, isSo] of all) {
        assert.equal(number.read(from), count);
        assert.ok(Object.is(double.read(from), any));
        assert.equal(words.read(from), some);
        assert.equal(flag.read(from), isSo);
      }
      assert.ok(from.isAtEnd);
    }),
  );
});

test("a text of a megabyte arrives, and the next message begins anew", () => {
  const to = new MessageWriter();
  const large = "ä".repeat(1024 * 1024);
  to.put(words, large);
  const first = to.take();
  to.put(words, "small");
  assert.equal(ByteReader.of(first).text(), large);
  assert.equal(ByteReader.of(to.take()).text(), "small");
  assert.equal(to.bytes, 0);
});

test("what another writer has is appended, and taken from it", () => {
  const [to, other] = [new MessageWriter(), new MessageWriter()];
  other.put(words, "b".repeat(100_000));
  to.put(words, "a");
  to.append(other);
  to.append(other);
  assert.equal(other.bytes, 0);
  const from = ByteReader.of(to.take());
  assert.equal(from.text(), "a");
  assert.equal(from.text().length, 100_000);
  assert.ok(from.isAtEnd);
});

test("a message that is cut anywhere is not taken for a whole one", () => {
  const to = new MessageWriter();
  to.put(number, 300);
  to.put(words, "some words");
  to.put(double, 1.5);
  const bytes = to.take();
  for (let end = 0; end < bytes.length; end += 1) {
    const from = ByteReader.of(bytes.subarray(0, end));
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
      keepsFirst: fc.boolean(),
      maxAttempts: whole,
      visibleMs: fc.option(fc.double({ noNaN: true }), { nil: undefined }),
      extras: anyExtras,
      unique: fc.constantFrom(undefined, {
        key: "k",
        while: "waiting" as const,
        on: "latest" as const,
        forMs: 1,
        maxWaitMs: 2,
      }),
      batchId: fc.option(text, { nil: undefined }),
      after: fc.option(fc.array(text) as fc.Arbitrary<TaskId[]>, { nil: undefined }),
      lane: fc.option(text, { nil: undefined }),
      cost: fc.option(whole, { nil: undefined }),
    },
    { noNullPrototype: true },
  );
  fc.assert(
    fc.property(task, (each) => {
      const call = { input: each, mode: undefined };
      assert.deepEqual(roundTrip(call, calls.enqueue), call);
    }),
  );
});

test("claims, owners, submissions and heads come out as they went in", () => {
  const queues = fc.option(fc.array(text), { nil: undefined });
  const leaseMs = fc.constantFrom(1, 60_000, Infinity);
  fc.assert(
    fc.property(text, queues, leaseMs, whole, (some, names, ms, count) => {
      const tenantId = some as TenantId;
      const workerId = `w${some}` as WorkerId;
      const claim = { tenantId, workerId, queues: names, leaseMs: ms, count, waitMs: 0 };
      assert.deepEqual(roundTrip(claim, calls.claim), claim);
      for (const leaseToken of [undefined, 0, count]) {
        const owned = { tenantId, id: some as TaskId, owner: { workerId, leaseToken } };
        assert.deepEqual(roundTrip(owned, calls.release), owned);
      }
      const artifacts = (names ?? []).map((name) => ({ name, url: some }));
      for (const how of ["completed", "failed"] as const) {
        const result = { json: some, artifacts };
        const of = { tenantId, id: some as TaskId, owner: { workerId, leaseToken: count } };
        const call = {
          of,
          request: {
            how,
            error: some,
            stack: some,
            result,
            resultBytes: count,
            used: count || undefined,
          },
        };
        assert.deepEqual(roundTrip(call, calls.submit), call);
      }
      const heading = { carriedOut: count, undecided: [1, count], isOverloaded: count % 2 === 0 };
      assert.deepEqual(roundTrip(heading, head), heading);
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
        assert.deepEqual(roundTrip([each], answers.claimed), [each]);
      }
    }),
  );
});

test("refusals keep their codes", () => {
  const exceeded = { quota: "pendingTasks", limit: 3, current: 3 } as const;
  for (const why of [{ code: "not_owner" }, { code: "quota_exceeded", exceeded }] as Refused[]) {
    assert.deepEqual(roundTrip(why, answers.refused), why);
  }
  const fault = roundTrip<Refused>(new FaultError("disk_full", "no room"), answers.refused);
  assert.ok(fault instanceof FaultError);
  assert.deepEqual([fault.code, fault.message], ["disk_full", "no room"]);
});
