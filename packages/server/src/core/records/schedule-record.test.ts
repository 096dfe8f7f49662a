import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import { decodeSchedule, type PutRecord, writeOfSchedule } from "./schedule-record.ts";

const of = { tenantId: "acme" as TenantId, id: "nightly" };
const record: PutRecord = {
  ...of,
  version: 3,
  createdMs: 1000,
  updatedMs: 2000,
  options: {
    command: "sync",
    payload: '{"n":1}',
    priority: 4,
    webhook: "",
    maxAttempts: 5,
    timeoutSeconds: 30,
    ttlSeconds: 60,
    tags: ["eu"],
    unique: { key: "ada", while: "unfinished", on: "latest", for: "5m" },
    lane: "ada",
    cost: 2,
    cron: "0 9 * * *",
    every: "",
    offset: "",
    tz: "Europe/Paris",
    fromMs: 5000,
    untilMs: undefined,
    except: ["2026-12-25"],
    times: 7,
    overlap: "one",
    graceSeconds: 10,
    catchUp: "all",
    within: "2h",
    spread: "1m",
    pauseAfterFailures: 3,
  },
};
const text = String(writeOfSchedule(record).value);

test("a schedule is read as it was written", () => {
  assert.deepEqual(decodeSchedule(of, text), record);
  const plain = { ...record, options: { ...record.options, unique: undefined } };
  assert.deepEqual(decodeSchedule(of, String(writeOfSchedule(plain).value)), plain);
});

test("a schedule that was written before keys and lanes has none", () => {
  const row = JSON.parse(text) as unknown[];
  const options = decodeSchedule(of, JSON.stringify(row.slice(0, -3)))?.options;
  assert.deepEqual([options?.unique, options?.lane, options?.cost], [undefined, "", 0]);
  assert.equal(options?.pauseAfterFailures, 3);
});

test("what is not a whole schedule is none", () => {
  const row = JSON.parse(text) as unknown[];
  for (const damaged of ["", "[]", text.slice(0, -1), JSON.stringify(row.slice(0, 12))]) {
    assert.equal(decodeSchedule(of, damaged), undefined, damaged);
  }
});
