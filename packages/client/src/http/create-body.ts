/** Tasks in requests that create them, and their ends in answers. */
import type { ReplyOf } from "@codeq/protocol";
import type { producer } from "@codeq/protocol/wire";
import type { TaskEnd } from "../producer/run.ts";

type Fields = Omit<producer.CreateTask, "seq" | "payload">;

type UniqueFields = Pick<
  Fields,
  "uniqueKey" | "uniqueWhile" | "uniqueOn" | "uniqueFor" | "uniqueMaxWait"
>;

export function uniqueOf(task: UniqueFields): Record<string, string> {
  const { uniqueKey: key, uniqueWhile, uniqueOn: on, uniqueFor, uniqueMaxWait: maxWait } = task;
  return { key, while: uniqueWhile, on, for: uniqueFor, maxWait };
}

/** A task of a request that creates several. */
export function itemOf(task: Fields, payload: string): string {
  const { command, priority, webhook, maxAttempts, idempotencyKey, runAtMs, delayMs } = task;
  const { tags, timeoutSeconds, ttlSeconds } = task;
  const runAt = runAtMs === undefined ? "" : new Date(runAtMs).toISOString();
  const fields = JSON.stringify({
    command,
    priority,
    webhook,
    maxAttempts,
    idempotencyKey,
    runAt,
    delaySeconds: Number(delayMs) / 1000,
    tags: tags.length === 0 ? undefined : tags,
    timeoutSeconds: timeoutSeconds === 0 ? undefined : timeoutSeconds,
    ttlSeconds: ttlSeconds === 0 ? undefined : ttlSeconds,
    batchId: task.batchId === "" ? undefined : task.batchId,
    after: task.after.length === 0 ? undefined : task.after,
    lane: task.lane === "" ? undefined : task.lane,
    cost: task.cost === 0 ? undefined : task.cost,
    unique: task.uniqueKey === "" ? undefined : uniqueOf(task),
  });
  return `${fields.slice(0, -1)},"payload":${payload}}`;
}

export function taskEnd({ result, task }: ReplyOf<"GET /tasks/:id/result">): TaskEnd {
  return {
    status: result.status,
    error: result.error ?? "",
    // An attempt that ended with a result did not come back, but it counts as an attempt.
    attempts: (task.attempts ?? 0) + (task.lastKnownLocation === "DLQ_SET" ? 0 : 1),
    json: result.result === undefined ? "" : JSON.stringify(result.result),
  };
}
