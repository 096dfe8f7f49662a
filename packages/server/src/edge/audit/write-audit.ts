/** Writes the audit records of counted events: new ones soon, repeated ones at the end of the minute. */

import type { Job } from "../../core/sweeps/ticker.ts";
import type { AuditTrail } from "./audit-trail.ts";

export function writeAudit(audit: AuditTrail): Job {
  return {
    name: "write-audit",
    nextMs: () => audit.writeAtMs,
    runOnce: () => audit.writeTallies(),
  };
}
