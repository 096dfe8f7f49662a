/** The interface between the worker of the client library and a runner of tasks: a command or a module. */
import type { TaskContext } from "@codeq/client";

/** As much of a task as its runner needs. */
export type RunnableTask = Pick<
  TaskContext,
  "id" | "task" | "payloadText" | "attempt" | "maxAttempts" | "signal"
>;

/** How a run ended. */
export type RunEnd =
  /** `result` is the text of a JSON object. */
  | { readonly as: "completed"; readonly result: string }
  /** Not to be tried again. */
  | { readonly as: "failed"; readonly error: string }
  | { readonly as: "retry"; readonly reason: string };

export type RunTask = (task: RunnableTask) => Promise<RunEnd>;
