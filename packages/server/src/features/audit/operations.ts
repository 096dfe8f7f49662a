/** Lists audit records of the caller's tenant, or of all tenants, newest first. */
import { api } from "@codeq/protocol/api";
import { askedTenant } from "../../edge/access/identity.ts";
import type { AuditRecord } from "../../edge/audit/audit-record.ts";
import { bind } from "../../edge/bind.ts";

export const listAudit = bind(api.audit.listAudit, {
  forEveryTenant: true,
  run: async ({ audit }, call, wanted) => {
    const { records, next } = await audit.list({ ...wanted, tenantId: askedTenant(call) });
    return { ok: true, value: { records: records.map(shown), next } };
  },
});

/** An action that happened once has no second time. */
function shown(record: AuditRecord) {
  return record.count === 1 ? { ...record, lastMs: undefined } : record;
}
