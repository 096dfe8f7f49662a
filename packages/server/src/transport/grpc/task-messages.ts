/** Claimed tasks as the messages that carry them, none larger than a client accepts. */
import { limits } from "@codeq/protocol";
import type { worker } from "@codeq/protocol/wire";
import { statusOf } from "@codeq/queue";
import type { ClaimedTask } from "../../broker/claims.ts";
import { utcSeconds } from "../../timestamps.ts";

/** Leaves room for what is around the tasks. */
const batchBytesMax = 4 * 1024 * 1024 - 64 * 1024;
/** More than the fields besides payload and webhook can need. */
const fieldsBytes = 1024;

export function assignments(
  claimed: readonly ClaimedTask[],
  how: { readonly workerId: string; readonly asBatch: boolean },
): worker.ServerEvent[] {
  const tasks = claimed.map((each) => taskMessage(each, how.workerId));
  if (!how.asBatch) return tasks.map((task) => ({ case: "task", value: { task } }));
  return batches(tasks).map((each) => ({ case: "taskBatch", value: { tasks: each } }));
}

function batches(tasks: readonly worker.Task[]): worker.Task[][] {
  const found: worker.Task[][] = [];
  let bytes = batchBytesMax;
  for (const task of tasks) {
    const size = fieldsBytes + limits.webhookCharsMax + Buffer.byteLength(task.payload);
    bytes += size;
    if (bytes > batchBytesMax) {
      found.push([]);
      bytes = size;
    }
    found.at(-1)?.push(task);
  }
  return found;
}

function taskMessage({ task, payload }: ClaimedTask, workerId: string): worker.Task {
  const { place } = task;
  return {
    id: task.id,
    command: task.command,
    payload,
    priority: task.priority,
    webhook: task.webhook,
    maxAttempts: task.maxAttempts,
    status: statusOf(place),
    workerId,
    leaseUntil: place.in === "leased" ? utcSeconds(place.untilMs) : "",
    attempts: task.attempts,
    tenantId: task.tenantId,
    createdAtMs: task.createdMs,
    updatedAtMs: task.updatedMs,
    leaseToken: task.leaseToken,
  };
}
