/** Writes the audit records of what was counted: soon what is new, by the minute what has grown. */
import type { AuditTrail } from "../access/audit-trail.ts";
import type { Job } from "./ticker.ts";

export function writeAudit(audit: AuditTrail): Job {
  return {
    name: "write-audit",
    nextMs: () => audit.writeAtMs,
    runOnce: () => audit.writeTallies(),
  };
}
