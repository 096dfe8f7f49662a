/** Deletes audit records whose retention has ended, by the hour. */
import type { AuditTrail } from "../access/audit-trail.ts";
import type { Job } from "./ticker.ts";

export function deleteOldAudit(audit: AuditTrail): Job {
  return {
    name: "delete-old-audit",
    nextMs: () => audit.deleteAtMs,
    runOnce: () => audit.deleteOld(),
  };
}
