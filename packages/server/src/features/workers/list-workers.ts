/**
 * Lists the workers of the caller's tenant: those that hold leases and those with an open stream, page by
 * page, ordered by id. Collected from memory on request.
 */
import { limits } from "@codeq/protocol";
import type { WorkerId } from "@codeq/queue";
import type { ConnectedWorker } from "../../edge/connected-workers.ts";
import { type Operation, refusal } from "../../edge/operation.ts";
import { type PageInput, pageLimitOf } from "../../edge/page-limit.ts";

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

export const listWorkers: Operation<PageInput, WorkerPage> = {
  name: "list_workers",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ queue, workers }, call, input) => {
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    // The id of a worker is at most its name, escaped, and its subject.
    if (input.after.length > limits.tokenCharsMax) {
      return refusal("invalid_argument", "invalid 'after' (use 'next' of the previous page)");
    }
    const { tenantId } = call.identity;
    const found = new Map<WorkerId, WorkingWorker>();
    for (const [workerId, connected] of workers.of(tenantId)) {
      found.set(workerId, { ...idle(workerId), connected });
    }
    const { workers: holders, isPartial } = await queue.leasesOf(tenantId);
    for (const each of holders) {
      found.set(each.workerId, { ...(found.get(each.workerId) ?? idle(each.workerId)), ...each });
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

function idle(workerId: WorkerId): WorkingWorker {
  return { workerId, connected: undefined, leases: 0, oldestMs: undefined, seenMs: undefined };
}
