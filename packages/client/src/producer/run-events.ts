/** What happens to a task, read from the server's feed. */
import type { Artifact, RunEvent, RunStatus } from "../api-types.ts";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import type { ServerSentEvent } from "../http/http-core.ts";

/** The result of a task. */
export interface RunResult {
  readonly event: "result";
  readonly taskId: string;
  readonly status: "COMPLETED" | "FAILED";
  /** What the handler returned, as its worker sent it; left out when it is empty. */
  readonly result?: unknown;
  /** The result is longer than 64 KiB; `run.result()` gives it. */
  readonly resultOmitted?: true;
  readonly error?: string;
  readonly artifacts?: readonly Artifact[];
  readonly completedAt: string;
}

/** The first update is the task as it is at the beginning of the watch, the last one is its result. */
export type TaskUpdate =
  | { readonly event: "task"; readonly task: RunStatus }
  | RunEvent
  | RunResult;

/** The updates in the feed of a task, up to its end. It throws when the feed ends before the task. */
export async function* updatesIn(
  taskId: string,
  events: AsyncIterable<ServerSentEvent>,
): AsyncGenerator<TaskUpdate> {
  let hasEnded = false;
  for await (const { name, value } of events) {
    if (name === "end") throw endOf(taskId, value as { code: string; reason: string });
    if (name === "" || name === "missed") continue;
    const update =
      name === "task" ? { event: "task" as const, task: value as RunStatus } : (value as RunEvent);
    hasEnded ||= isEnd(update);
    yield update;
  }
  if (hasEnded) return;
  const text = `the server ended the events of task ${taskId} before the task has ended; ask for them again`;
  throw new CodeqError("unavailable", text, { taskId });
}

function isEnd(update: TaskUpdate): boolean {
  if (update.event === "task") return endStates.has(update.task.status);
  return update.event === "completed" || update.event === "failed";
}

const endStates: ReadonlySet<string> = new Set(["COMPLETED", "FAILED"]);

function endOf(taskId: string, { code, reason }: { code: string; reason: string }): CodeqError {
  const text = `the server ended the events of task ${taskId}: ${reason}`;
  return new CodeqError(isRetryable(code) ? "unavailable" : code, text, { taskId });
}
