/** What happens to a task, read from the server's feed. */
import type { Artifact } from "../artifact.ts";
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
  /** Which delivery it is about, from 1 on. */
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

/** Server-sent events out of pieces of text; what is no update of the task is passed over. */
export async function* updatesIn(pieces: AsyncIterable<string>): AsyncGenerator<TaskUpdate> {
  let rest = "";
  for await (const piece of pieces) {
    const events = (rest + piece).split("\n\n");
    rest = events.pop() ?? "";
    for (const text of events) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(text) ?? [];
      if (name === undefined || data === undefined || name === "missed" || name === "end") continue;
      const value: unknown = JSON.parse(data);
      yield name === "task" ? { event: "task", task: value as RunStatus } : (value as RunEvent);
    }
  }
}
