/** What happens to a task, read from the server's feed. */
import type { Artifact } from "../artifact.ts";
import { CodeqError, isRetryable } from "../codeq-error.ts";
import type { ServerSentEvent } from "../http/http-core.ts";
import type { RunStatus } from "./run.ts";

/** Something that happened to a task. */
export interface RunEvent {
  readonly event:
    | "created"
    | "promoted"
    | "replayed"
    | "edited"
    | "claimed"
    | "completed"
    | "failed"
    | "retried"
    | "released"
    | "lease_expired"
    | "progress"
    | "log";
  /** When, as in RFC 3339. */
  readonly time: string;
  readonly taskId: string;
  readonly command: string;
  /** Which attempt it is about, from 1 on. */
  readonly attempt: number;
  readonly workerId?: string;
  /** Of `progress`: how far the work has come, from 0 to 100, and what is being done. */
  readonly percent?: number;
  readonly text?: string;
  /** Of `log`: what the worker wrote. */
  readonly lines?: readonly string[];
  /** Of `failed` and `retried`. */
  readonly reason?: string;
  readonly how?: string;
  /** How long until the task is ready again. */
  readonly delaySeconds?: number;
}

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

/** The first one is the task as it is when somebody begins to watch, the last one its result. */
export type TaskUpdate =
  | { readonly event: "task"; readonly task: RunStatus }
  | RunEvent
  | RunResult;

/** What the feed of a task tells, up to its end. It throws when the feed ends before the task. */
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
