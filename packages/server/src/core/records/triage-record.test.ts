import assert from "node:assert/strict";
import test from "node:test";
import type { TenantId } from "@codeq/queue";
import { decodeTriage, type Triage, writeOfTriage } from "./triage-record.ts";

const triage: Triage = {
  group: "3f2a9c1e5b7d",
  state: "snoozed",
  by: "ana",
  atMs: 7,
  untilMs: 9,
  reason: "vendor is down",
};

test("a triage comes back as it was written", () => {
  const write = writeOfTriage("acme" as TenantId, triage);
  assert.deepEqual(decodeTriage(triage.group, String(write.value)), triage);
});

test("what is no triage does not decode", () => {
  const bad = [
    "",
    "{}",
    "[]",
    '["open","ana",1,2,""]',
    '["resolved","ana",1.5,2,""]',
    "[1,2,3,4,5]",
  ];
  for (const text of bad) assert.equal(decodeTriage("g", text), undefined, text);
});
