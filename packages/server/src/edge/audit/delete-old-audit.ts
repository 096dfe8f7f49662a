/** Deletes audit records whose retention has ended, by the hour. */

import type { Job } from "../../core/sweeps/ticker.ts";
import type { AuditTrail } from "./audit-trail.ts";

export function deleteOldAudit(audit: AuditTrail): Job {
  return {
    name: "delete-old-audit",
    nextMs: () => audit.deleteAtMs,
    runOnce: () => audit.deleteOld(),
  };
}
