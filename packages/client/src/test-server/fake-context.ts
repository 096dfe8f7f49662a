/** A context for a handler that a test calls by itself, without a server. */
import type { ArtifactContent } from "../artifact.ts";
import type { TaskContext } from "../worker/task-context.ts";

/** What a handler did with its context, beside the context itself. */
export interface FakeContext extends TaskContext {
  /** The calls of `ctx.progress`. */
  readonly progressed: readonly { readonly fraction: number; readonly note: string | undefined }[];
  /** The lines of `ctx.log`. */
  readonly logged: readonly string[];
  /** The units of `ctx.used`. */
  readonly unitsUsed: readonly number[];
  /** The files of `ctx.artifact`, by name. */
  readonly artifacts: ReadonlyMap<string, ArtifactContent>;
  /** Aborts `ctx.signal`, as a worker does when the lease is lost or the task is cancelled. */
  abort(reason?: unknown): void;
}

/**
 * A context for `handler.call`: the first of five attempts of a task. `fields` replace what it has.
 *
 * ```ts
 * const ctx = fakeContext({ attempt: 2 });
 * assert.deepEqual(await greeter.call({ name: "Ada" }, ctx), { text: "hello Ada" });
 * assert.deepEqual(ctx.logged, ["greeting Ada"]);
 * ```
 */
export function fakeContext(
  fields: Partial<Omit<TaskContext, "signal" | "progress" | "log" | "used" | "artifact">> = {},
): FakeContext {
  const controller = new AbortController();
  const progressed: { fraction: number; note: string | undefined }[] = [];
  const logged: string[] = [];
  const unitsUsed: number[] = [];
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
    batch: undefined,
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
