/** Which workers hold leases of a tenant; collected from memory on request. */
import type { TenantId, WorkerId } from "@codeq/queue";
import type { Leases } from "./leases.ts";
import type { TenantLeases, WorkerLeases } from "./queue.ts";

/** Looked at for one answer, which takes some milliseconds. */
const leasesMax = 100_000;

export function leasesOf(leases: Leases, tenantId: TenantId): TenantLeases {
  const found = new Map<WorkerId, { -readonly [Name in keyof WorkerLeases]: WorkerLeases[Name] }>();
  let looked = 0;
  for (const { workerId, sinceMs, seenMs } of leases.ofTenant(tenantId)) {
    if (looked === leasesMax) return { workers: [...found.values()], isPartial: true };
    looked += 1;
    const worker = found.get(workerId);
    if (worker === undefined) {
      found.set(workerId, { workerId, leases: 1, oldestMs: sinceMs, seenMs });
      continue;
    }
    worker.leases += 1;
    worker.oldestMs = Math.min(worker.oldestMs, sinceMs);
    worker.seenMs = Math.max(worker.seenMs, seenMs);
  }
  return { workers: [...found.values()], isPartial: false };
}
