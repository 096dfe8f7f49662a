/** Which workers wait for which tasks; collected from memory on request. */
import type { TenantId, WorkerId } from "@codeq/queue";
import type { AskingWorker } from "../search/explained.ts";
import type { ClaimLines } from "./claim-lines.ts";

/** Looked at for one answer. */
const claimsMax = 10_000;

export function askingWorkers(lines: ClaimLines, tenantId: TenantId): readonly AskingWorker[] {
  const found = new Map<WorkerId, AskingWorker>();
  for (const { workerId, queues } of lines.ofTenant(tenantId, claimsMax)) {
    const { claims, queues: others } = found.get(workerId) ?? { claims: 0, queues: [] };
    found.set(workerId, {
      workerId,
      claims: claims + 1,
      queues: queues && others && [...new Set([...others, ...queues])],
    });
  }
  return [...found.values()];
}
