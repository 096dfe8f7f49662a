/** The audit trail: what administrators did, and who was refused. */
import { endpoints, pageOf, pageQuery } from "../../contract/endpoint.ts";
import { instant, object, text, whole } from "../../contract/shape.ts";

const outcomes = ["ok", "refused", "failed"] as const;

/** What is not known of an action is empty in the server, and missing in the answer. */
export const AuditRecord = object(
  {
    id: text(),
    time: instant("", { as: "atMs" }),
    action: text(),
    target: text("", { none: "" }),
    detail: text("", { none: "" }),
    outcome: text("", { oneOf: outcomes }),
    code: text("", { none: "" }),
    tenantId: text("", { none: "" }),
    subject: text("", { none: "" }),
    homeTenantId: text("", { none: "" }),
    issuedBy: text("", { none: "" }),
    apiKeyId: text("", { none: "" }),
    address: text("", { none: "" }),
    requestId: text("", { none: "" }),
    count: whole("", { min: 2, none: 1 }),
    lastTime: instant("", { as: "lastMs", isOptional: true }),
  },
  { name: "AuditRecord" },
);

export const audit = endpoints({
  listAudit: {
    key: "GET /admin/audit",
    access: "admin",
    summary: "List audit records",
    query: {
      ...pageQuery(/^[0-9a-f]{14}\/[0-9a-f]{16}$/),
      from: instant("Only records at or after this time.", { isOptional: true }),
      to: instant("Only records before this time.", { isOptional: true }),
      action: text("Only records of this action, such as `create_api_key`.", {
        pattern: /^[a-z_]{1,64}$/,
        refusal: "invalid 'action'",
        isOptional: true,
      }),
      outcome: text(`Only records with this outcome: ${outcomes.join(", ")}.`, {
        oneOf: outcomes,
        rule: `one of ${outcomes.join(", ")}`,
        isOptional: true,
      }),
    },
    replies: {
      200: {
        about: "Records, the newest first.",
        shape: pageOf("AuditRecords", "records", AuditRecord),
      },
    },
  },
});
