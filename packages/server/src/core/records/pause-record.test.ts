import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import { decodePause, writeOfPause } from "./pause-record.ts";

const mail = { tenantId: "acme" as TenantId, name: "mail" };

test("a pause is read back as it was written", () => {
  const pause = { by: "root", atMs: 7, reason: 'the "provider" is down' };
  const write = writeOfPause(mail, pause);
  assert.equal(write.key, "codeq/paused/mail/acme");
  assert.deepEqual(decodePause(String("value" in write ? write.value : "")), pause);
});

test("what is no record is told from one", () => {
  for (const text of [
    "",
    "{}",
    "[]",
    '["root","7",""]',
    '["root",7]',
    '["root",7.5,""]',
    "[1,2,3]",
  ]) {
    assert.equal(decodePause(text), undefined, text);
  }
});
