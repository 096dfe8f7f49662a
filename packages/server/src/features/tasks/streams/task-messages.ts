/** Packs claimed tasks into messages, none larger than a client accepts. */
import { limits } from "@codeq/protocol";
import type { worker } from "@codeq/protocol/wire";
import { statusOf } from "@codeq/queue";
import type { ClaimedTask } from "../../../core/broker/verbs.ts";
import { utcSeconds } from "../../../core/timestamps.ts";

/** Leaves room for the message around the tasks. */
const batchBytesMax = 4 * 1024 * 1024 - 64 * 1024;
/** More than all fields besides payload and webhook need. */
const fieldsBytes = 1024;

const noTags: readonly string[] = [];

interface TaskBatch {
  readonly message: worker.ServerEvent;
  /** The tasks of the message. */
  readonly tasks: readonly ClaimedTask[];
}

export function taskBatches(claimed: readonly ClaimedTask[], workerId: string): TaskBatch[] {
  return batches(claimed).map((tasks) => {
    const messages = tasks.map((each) => taskMessage(each, workerId));
    return { message: { case: "taskBatch", value: { tasks: messages } }, tasks };
  });
}

function batches(claimed: readonly ClaimedTask[]): ClaimedTask[][] {
  const found: ClaimedTask[][] = [];
  let bytes = batchBytesMax;
  for (const each of claimed) {
    const size = fieldsBytes + limits.webhookCharsMax + Buffer.byteLength(each.payload);
    bytes += size;
    if (bytes > batchBytesMax) {
      found.push([]);
      bytes = size;
    }
    found.at(-1)?.push(each);
  }
  return found;
}

export function taskMessage({ task, payload }: ClaimedTask, workerId: string): worker.Task {
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
    traceParent: task.traceParent,
    traceState: task.traceState,
    tags: (task.extras?.tags ?? noTags) as string[],
    replayOf: task.repairs?.replayOf ?? "",
    timeoutSeconds: (task.extras?.timeoutMs ?? 0) / 1000,
    scheduleId: task.schedule?.id ?? "",
    scheduledForMs: task.schedule?.forMs ?? 0,
    batchId: task.batch?.id ?? "",
    isBatchCallback: task.batch?.isCallback ?? false,
    batchSucceeded: task.batch?.ended?.succeeded ?? 0,
    batchFailed: task.batch?.ended?.failed ?? 0,
    batchCancelled: task.batch?.ended?.cancelled ?? 0,
    lane: task.lane?.name ?? "",
    cost: task.lane?.cost ?? 1,
  };
}
