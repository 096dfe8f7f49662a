/** A task that was enqueued, and how to get its result. */
import type { RunStatus, TaskExplanation } from "../api-types.ts";
import { TaskFailedError } from "../codeq-error.ts";
import { type Duration, toMs, toSeconds } from "../duration.ts";
import type { RunArtifact } from "../payload/artifact.ts";
import { outputFromJson } from "../payload/json-text.ts";
import { validate } from "../payload/standard-schema.ts";
import type { TaskDefinition } from "../task.ts";
import type { WaitOptions } from "./results.ts";
import type { TaskUpdate } from "./run-events.ts";

/** How long to wait for a result. */
export interface ResultOptions {
  /** How long to wait. Default: no limit. */
  readonly timeout?: Duration | undefined;
  /** Stops waiting; the task goes on. */
  readonly signal?: AbortSignal | undefined;
}

/** A task that was enqueued. It is made by `client.enqueue`, and from an id by `client.run`. */
export interface Run<Output> {
  /** The id of the task. */
  readonly id: string;
  /** The name of the task. */
  readonly task: string;
  /**
   * Waits until the task has ended and gives its output. Rejects with a `TaskFailedError` when it
   * failed, and with the code `timeout` when it has not ended in time.
   */
  result(options?: ResultOptions): Promise<Output>;
  /**
   * Ends the task as failed with the reason `CANCELLED`. A task that waits ends at once. When a worker
   * has it, its `ctx.signal` aborts, and after a time of grace the task is taken away from it. Rejects
   * with the code `has_ended` when the task has ended already.
   */
  cancel(options?: CancelOptions): Promise<void>;
  /** Where the task is now, and who had it. */
  status(): Promise<RunStatus>;
  /**
   * The files of the result, once the task has ended.
   *
   * ```ts
   * for (const artifact of await run.artifacts()) {
   *   console.log(artifact.name, (await artifact.content()).length);
   * }
   * ```
   */
  artifacts(): Promise<readonly RunArtifact[]>;
  /**
   * What happens to the task, beginning with how it is now, until it has ended: its places, the progress
   * and the log of its handler, and at last its result. It throws a `CodeqError` with the code `unavailable`
   * when the server ends the feed before the task has ended; call it again to go on, on the next node of a
   * cluster.
   *
   * ```ts
   * for await (const update of run.events()) {
   *   if (update.event === "progress") console.log(update.percent);
   *   if (update.event === "result") console.log(update.status, update.result);
   * }
   * ```
   */
  events(options?: { readonly signal?: AbortSignal | undefined }): AsyncGenerator<TaskUpdate>;
  /**
   * A token with which a browser watches this task, and can do nothing else: `codeq({ url, token }).run(task, id).events()`
   * of `@codeq/client/fetch`. It is valid for `for` (default: `"1h"`, at most a day).
   */
  publicToken(options?: { readonly for?: Duration | undefined }): Promise<string>;
  /**
   * Why the task is where it is: the rule that holds it, what is ahead of it, and about when it begins.
   *
   * ```ts
   * const { rule, why } = await run.explain();
   * ```
   */
  explain(): Promise<TaskExplanation>;
}

/** How a task is cancelled. */
export interface CancelOptions {
  /** How long the worker of a running task gets to stop. Default: 30 seconds. */
  readonly grace?: Duration | undefined;
}

type Cancel = (taskId: string, options: CancelOptions) => Promise<void>;

/** How a task ended, as the server says it. */
export interface TaskEnd {
  readonly status: string;
  readonly error: string;
  readonly attempts: number;
  /** Empty without a result. */
  readonly json: string;
}

type WaitForResult = (taskId: string, options: WaitOptions) => Promise<TaskEnd>;

interface RunVerbs {
  readonly wait: WaitForResult;
  readonly cancel: Cancel;
  readonly artifacts: (taskId: string) => Promise<readonly RunArtifact[]>;
  readonly events: (taskId: string, signal: AbortSignal | undefined) => AsyncGenerator<TaskUpdate>;
  readonly status: (taskId: string) => Promise<RunStatus>;
  readonly explain: (taskId: string) => Promise<TaskExplanation>;
  readonly publicToken: (taskId: string, seconds: number) => Promise<{ readonly token: string }>;
}

const publicTokenDefault: Duration = "1h";

export function createRun<Output>(
  definition: TaskDefinition,
  id: string,
  { wait, cancel, status, explain, artifacts, events, publicToken }: RunVerbs,
): Run<Output> {
  return {
    cancel: (options = {}) => cancel(id, options),
    artifacts: () => artifacts(id),
    events: ({ signal } = {}) => {
      const updates = events(id, signal);
      return definition.codec === undefined ? updates : withPlainResults(definition, updates);
    },
    status: () => status(id),
    explain: () => explain(id),
    publicToken: async ({ for: length = publicTokenDefault } = {}) =>
      (await publicToken(id, toSeconds(toMs(length, "for")))).token,
    id,
    task: definition.name,
    result: async ({ timeout, signal } = {}) => {
      const timeoutMs = timeout === undefined ? undefined : toMs(timeout, "timeout");
      const result = await wait(id, { timeoutMs, signal });
      if (result.status !== "COMPLETED") {
        throw new TaskFailedError(id, result.error, result.attempts);
      }
      const output = outputFromJson(await plain(definition, result.json));
      return (await parse(definition, output)) as Output;
    },
  };
}

/** A text of the server as the codec of the task reads it; without an output there is nothing to read. */
async function plain({ codec }: TaskDefinition, json: string): Promise<string> {
  const isEmpty = json === "" || json === "{}";
  return codec === undefined || isEmpty ? json : codec.decode(json);
}

async function* withPlainResults(
  definition: TaskDefinition,
  updates: AsyncGenerator<TaskUpdate>,
): AsyncGenerator<TaskUpdate> {
  for await (const update of updates) {
    const hasResult = update.event === "result" && update.result !== undefined;
    if (!hasResult) yield update;
    else {
      const json = await plain(definition, JSON.stringify(update.result));
      yield { ...update, result: JSON.parse(json) };
    }
  }
}

async function parse({ name, output: schema }: TaskDefinition, output: unknown): Promise<unknown> {
  if (schema === undefined) return output;
  return validate(schema, output, { code: "invalid_output", of: `the output of ${name}` });
}

/** The body of a request to cancel a task. */
export function graceBody({ grace }: CancelOptions): { readonly graceSeconds?: number } {
  return grace === undefined ? {} : { graceSeconds: Math.ceil(toMs(grace, "grace") / 1000) };
}
