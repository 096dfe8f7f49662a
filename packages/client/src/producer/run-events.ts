/** What happens to a task, read from the server's feed. */
import type { RunEvent, RunResult, RunStatus } from "../api-types.ts";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import type { ServerSentEvent } from "../http/http-core.ts";

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
    if (name === "end") throw endOf(taskId, value);
    if (name === "" || name === "missed") continue;
    if (name === "task") yield { event: "task", task: value };
    else if ("taskId" in value) yield value;
    hasEnded ||= "status" in value ? endStates.has(value.status) : endNames.has(value.event);
  }
  if (hasEnded) return;
  const text = `the server ended the events of task ${taskId} before the task has ended; ask for them again`;
  throw new CodeqError("unavailable", text, { taskId });
}

const endStates: ReadonlySet<string> = new Set(["COMPLETED", "FAILED"]);
const endNames: ReadonlySet<string> = new Set(["completed", "failed"]);

function endOf(taskId: string, { code, reason }: { code: string; reason: string }): CodeqError {
  const text = `the server ended the events of task ${taskId}: ${reason}`;
  return new CodeqError(isRetryable(code) ? "unavailable" : code, text, { taskId });
}
