/** The route of the audit trail. */

import { type AuditRecord, auditOutcomes } from "../../edge/audit/audit-record.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { pageIn } from "../../edge/http/page-query.ts";
import { pageFields, textField } from "../../edge/http/query.ts";
import { json, route } from "../../edge/http/route.ts";
import { listAudit } from "./list-audit.ts";

export const auditRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/admin/audit",
    operation: listAudit,
    name: "listAudit",
    summary: "List audit records",
    query: {
      ...pageFields,
      from: textField("RFC 3339 time: only records at or after this time."),
      to: textField("RFC 3339 time: only records before this time."),
      action: textField("Only records of this action, such as `create_api_key`."),
      outcome: textField(`Only records with this outcome: ${auditOutcomes.join(", ")}.`),
    },
    replies: { 200: { about: "Records, the newest first.", schema: "AuditRecords" } },
    input: (request) => {
      const text = (name: string): string => String(request.query[name] ?? "");
      const value = { from: text("from"), to: text("to"), action: text("action") };
      return { ok: true, value: { ...pageIn(request), ...value, outcome: text("outcome") } };
    },
    reply: ({ records, next }, codec) =>
      json(JSON.stringify({ records: records.map((each) => shown(each, codec)), next })),
  }),
] as const;

/** What is not known is left out. */
function shown(record: AuditRecord, codec: JsonCodec): Record<string, unknown> {
  const { id, atMs, lastMs, count, ...event } = record;
  const known = Object.entries(event).filter(([, value]) => value !== "");
  return {
    id,
    time: codec.instant(atMs),
    ...Object.fromEntries(known),
    ...(count === 1 ? {} : { count, lastTime: codec.instant(lastMs) }),
  };
}
