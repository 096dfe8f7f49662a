/** Lists audit records of the caller's tenant, or of all tenants, newest first. */

import { askedTenant } from "../../edge/asked-tenant.ts";
import { auditOutcomes } from "../../edge/audit/audit-record.ts";
import type { AuditPage } from "../../edge/audit/audit-trail.ts";
import { type Answer, type Operation, refusal } from "../../edge/operation.ts";
import { type PageInput, pageLimitOf } from "../../edge/page-limit.ts";
import { parseInstant } from "../../edge/parse-instant.ts";

export interface ListAuditInput extends PageInput {
  /** RFC 3339, or empty for the beginning. */
  readonly from: string;
  /** RFC 3339, not included; empty for now. */
  readonly to: string;
  /** Empty for all. */
  readonly action: string;
  readonly outcome: string;
}

export const listAudit: Operation<ListAuditInput, AuditPage> = {
  name: "list_audit",
  access: "admin",
  scope: undefined,
  forEveryTenant: true,
  audit: { of: "other tenants" },
  run: async ({ audit }, call, input) => {
    const { after, action } = input;
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    if (!/^([0-9a-f]{14}\/[0-9a-f]{16})?$/.test(after)) {
      return refusal("invalid_argument", "invalid 'after' (use 'next' of the previous page)");
    }
    if (!/^([a-z_]{1,64})?$/.test(action)) return refusal("invalid_argument", "invalid 'action'");
    const outcome = auditOutcomes.find((each) => each === input.outcome);
    if (outcome === undefined && input.outcome !== "") {
      const known = auditOutcomes.join(", ");
      return refusal("invalid_argument", `invalid 'outcome' (one of ${known})`);
    }
    const fromMs = instantIn(input.from, "from");
    if (!fromMs.ok) return fromMs;
    const toMs = instantIn(input.to, "to");
    if (!toMs.ok) return toMs;
    const value = await audit.list({
      tenantId: askedTenant(call),
      after,
      limit: limit.value,
      outcome,
      fromMs: fromMs.value,
      toMs: toMs.value,
      action: action === "" ? undefined : action,
    });
    return { ok: true, value };
  },
};

function instantIn(text: string, name: string): Answer<number | undefined> {
  const value = text === "" ? undefined : parseInstant(text);
  if (value !== undefined || text === "") return { ok: true, value };
  return refusal("invalid_argument", `invalid '${name}' (use RFC3339)`);
}
