/**
 * Who works for the caller's tenant: those that hold leases and those that have a stream open, page by
 * page in the order of their ids. It is put together from memory when somebody asks.
 */
import { limits } from "@codeq/protocol";
import type { WorkerId } from "@codeq/queue";
import type { Lease } from "../broker/leases.ts";
import type { ConnectedWorker } from "./connected-workers.ts";
import { type Operation, refusal } from "./operation.ts";
import { type PageInput, pageLimitOf } from "./page-limit.ts";

export interface WorkingWorker {
  readonly workerId: WorkerId;
  /** Undefined when it has no stream. */
  readonly connected: ConnectedWorker | undefined;
  readonly leases: number;
  /** When the oldest of its leases began, and when it last claimed or extended one of them. */
  readonly oldestMs: number | undefined;
  readonly seenMs: number | undefined;
}

export interface WorkerPage {
  readonly workers: readonly WorkingWorker[];
  readonly next: string | undefined;
  /** There are more leases than were looked at. */
  readonly isPartial: boolean;
}

type Draft = { -readonly [Name in keyof WorkingWorker]: WorkingWorker[Name] };

/** Looked at for one answer, which takes some milliseconds. */
const leasesMax = 100_000;

export const listWorkers: Operation<PageInput, WorkerPage> = {
  name: "list_workers",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ broker, workers }, call, input) => {
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    // The id of a worker is at most its name, escaped, and its subject.
    if (input.after.length > limits.tokenCharsMax) {
      return refusal("invalid_argument", "invalid 'after' (use 'next' of the page before)");
    }
    const { tenantId } = call.identity;
    const found = new Map<WorkerId, Draft>();
    for (const [workerId, connected] of workers.of(tenantId)) {
      found.set(workerId, { ...idle(workerId), connected });
    }
    let looked = 0;
    let isPartial = false;
    for (const lease of broker.leases.ofTenant(tenantId)) {
      isPartial = looked === leasesMax;
      if (isPartial) break;
      looked += 1;
      const worker = found.get(lease.workerId) ?? idle(lease.workerId);
      found.set(lease.workerId, worker);
      addLease(worker, lease);
    }
    const ids = [...found.keys()].filter((id) => id > input.after).sort();
    const page = ids.slice(0, limit.value);
    return {
      ok: true,
      value: {
        workers: page.map((id) => found.get(id) ?? idle(id)),
        next: ids.length > page.length ? page.at(-1) : undefined,
        isPartial,
      },
    };
  },
};

function idle(workerId: WorkerId): Draft {
  return { workerId, connected: undefined, leases: 0, oldestMs: undefined, seenMs: undefined };
}

function addLease(worker: Draft, { sinceMs, seenMs }: Lease): void {
  worker.leases += 1;
  worker.oldestMs = Math.min(worker.oldestMs ?? sinceMs, sinceMs);
  worker.seenMs = Math.max(worker.seenMs ?? seenMs, seenMs);
}
