/** Writes the audit records of counted events: new ones soon, repeated ones at the end of the minute. */
import type { AuditTrail } from "../access/audit-trail.ts";
import type { Job } from "./ticker.ts";

export function writeAudit(audit: AuditTrail): Job {
  return {
    name: "write-audit",
    nextMs: () => audit.writeAtMs,
    runOnce: () => audit.writeTallies(),
  };
}
