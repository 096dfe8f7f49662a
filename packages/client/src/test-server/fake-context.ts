/** A context for a handler that a test calls by itself, without a server. */
import type { BatchProgress } from "../api-types.ts";
import type { HandledBatch } from "../batches/batch.ts";
import type { ArtifactContent } from "../payload/artifact.ts";
import type { EnqueueOptions } from "../producer/enqueue-options.ts";
import type { Run } from "../producer/run.ts";
import { definitionOf } from "../task.ts";
import type { TaskContext } from "../worker/task-context.ts";

/** What a handler did with its context, beside the context itself. */
export interface FakeContext extends TaskContext {
  /** The calls of `ctx.progress`. */
  readonly progressed: readonly { readonly fraction: number; readonly note: string | undefined }[];
  /** The lines of `ctx.log`. */
  readonly logged: readonly string[];
  /** The units of `ctx.used`. */
  readonly unitsUsed: readonly number[];
  /** The members that were added to `ctx.batch`. */
  readonly added: readonly AddedMember[];
  /** The files of `ctx.artifact`, by name. */
  readonly artifacts: ReadonlyMap<string, ArtifactContent>;
  /** Aborts `ctx.signal`, as a worker does when the lease is lost or the task is cancelled. */
  abort(reason?: unknown): void;
}

/** A task that a handler added to its batch. */
export interface AddedMember {
  readonly task: string;
  readonly input: unknown;
  readonly options: EnqueueOptions;
}

type Acts = "signal" | "progress" | "log" | "used" | "artifact" | "batch";
type Fields = Partial<Omit<TaskContext, Acts>> & {
  readonly batch?: Pick<HandledBatch, "id" | "ended">;
};

/**
 * A context for `handler.call`: the first of five attempts of a task. `fields` replace what it has.
 *
 * ```ts
 * const ctx = fakeContext({ attempt: 2 });
 * assert.deepEqual(await greeter.call({ name: "Ada" }, ctx), { text: "hello Ada" });
 * assert.deepEqual(ctx.logged, ["greeting Ada"]);
 * ```
 */
export function fakeContext({ batch, ...fields }: Fields = {}): FakeContext {
  const controller = new AbortController();
  const progressed: { fraction: number; note: string | undefined }[] = [];
  const logged: string[] = [];
  const unitsUsed: number[] = [];
  const added: AddedMember[] = [];
  const artifacts = new Map<string, ArtifactContent>();
  const { payload = null } = fields;
  return {
    id: "00000000-0000-7000-8000-000000000001",
    task: "test",
    payload,
    payloadText: JSON.stringify(payload),
    attempt: 1,
    maxAttempts: 5,
    tags: [],
    replayOf: "",
    schedule: undefined,
    batch: batch && fakeBatch(batch, added),
    priority: 0,
    createdAt: new Date(0),
    fencingToken: 1,
    trace: undefined,
    lane: "",
    cost: 1,
    ...fields,
    signal: controller.signal,
    progressed,
    logged,
    unitsUsed,
    added,
    artifacts,
    abort: (reason) => controller.abort(reason),
    progress: (fraction, note) => void progressed.push({ fraction, note }),
    log: (line) => void logged.push(line),
    used: (units) => void unitsUsed.push(units),
    artifact: async (name, content, { contentType = "application/octet-stream" } = {}) => {
      artifacts.set(name, content);
      const bytes = typeof content === "string" ? new TextEncoder().encode(content).length : 0;
      return { name, url: `/${name}`, contentType, bytes };
    },
  };
}

/** A batch that remembers its members; none of them runs. */
function fakeBatch(
  { id, ended }: Pick<HandledBatch, "id" | "ended">,
  added: AddedMember[],
): HandledBatch {
  let phase: BatchProgress["phase"] = ended === undefined ? "open" : "released";
  const runOf = (name: string): Run<never> => {
    // A handler passes it on; only a server has what its functions ask for.
    return { id: `member-${added.length}`, task: name } as Run<never>;
  };
  const add: HandledBatch["add"] = async (task, ...[input, options = {}]) => {
    const { name } = definitionOf(task);
    added.push({ task: name, input, options });
    return runOf(name);
  };
  const progress = async (): Promise<BatchProgress> => {
    const { succeeded = 0, failed = 0, cancelled = 0 } = ended ?? {};
    const pending = added.length;
    const total = pending + succeeded + failed + cancelled;
    const counts = { total, pending, succeeded, failed, cancelled };
    const createdAt = new Date(0).toISOString();
    const callback = { callbackId: `${id}-callback`, command: "test", on: "end" } as const;
    return { id, phase, ...callback, ...counts, createdAt };
  };
  const become = (next: BatchProgress["phase"]) => (): Promise<BatchProgress> => {
    phase = next;
    return progress();
  };
  return {
    id,
    ended,
    add,
    addMany: (task, items) =>
      Promise.all(items.map(({ input, ...options }) => add(task, input, options as never))),
    progress,
    seal: become("sealed"),
    cancel: become("cancelled"),
    results: async function* () {},
  };
}
