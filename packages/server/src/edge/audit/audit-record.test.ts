import assert from "node:assert/strict";
import { test } from "node:test";
import type { TenantId } from "@codeq/queue";
import fc from "fast-check";
import { type AuditRecord, auditRecords, removalsOfAudit, writesOfAudit } from "./audit-record.ts";

const id = "1ffe6b2a1f3c00/ffffffff0a0b0c0d";
const record: AuditRecord = {
  ...{ id, atMs: 1, lastMs: 2, count: 3, action: "clean_up", target: "t", detail: "d" },
  ...{ outcome: "ok", code: "", tenantId: "acme" as TenantId, subject: "boss" },
  ...{ homeTenantId: "acme", issuedBy: "configuration", apiKeyId: "" },
  ...{ address: "192.0.2.1", requestId: "r" },
};

function written(each: AuditRecord): string {
  return String(writesOfAudit(each)[0]?.value);
}

function decoded(text: string): AuditRecord | undefined {
  return auditRecords.decode(text, id);
}

test("a record is read back as it was written", () => {
  const text = fc.string({ unit: "grapheme" });
  const fields = { target: text, detail: text, subject: text, requestId: text, address: text };
  fc.assert(
    fc.property(
      fc.record({ ...fields, count: fc.nat(), atMs: fc.nat(), lastMs: fc.nat() }),
      (some) => {
        const whole = { ...record, ...some };
        assert.deepEqual(decoded(written(whole)), whole);
      },
    ),
  );
});

test("what is not a whole record is none", () => {
  const row = JSON.parse(written(record)) as unknown[];
  for (let at = 0; at < row.length; at += 1) {
    const damaged = row.map((cell, index) => (index === at ? null : cell));
    assert.equal(decoded(JSON.stringify(damaged)), undefined);
    assert.equal(decoded(JSON.stringify(row.slice(0, at))), undefined);
  }
  for (const text of ["", "null", "{}", "["]) assert.equal(decoded(text), undefined);
});

test("what is written for a record is what is removed with it", () => {
  for (const tenantId of ["acme", "", "*"] as TenantId[]) {
    const keys = writesOfAudit({ ...record, tenantId }).map(({ key }) => key);
    assert.deepEqual(
      removalsOfAudit({ ...record, tenantId }).map(({ key }) => key),
      keys,
    );
    assert.deepEqual(keys, [`codeq/audit/all/${id}`, `codeq/audit/of/${tenantId || "_"}/${id}`]);
  }
});
