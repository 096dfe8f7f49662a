/** Runs the handler of an attempt and says what came of it. Never throws. */
import { limits } from "@codeq/protocol";
import type { Artifact } from "../api-types.ts";
import type { BatchHandle } from "../batches/batch.ts";
import { CodeqError } from "../codeq-error.ts";
import { eventBytesMax } from "../grpc/grpc-session.ts";
import type { UploadedFile } from "../payload/artifact.ts";
import { JsonText, outputToJson } from "../payload/json-text.ts";
import { validate } from "../payload/standard-schema.ts";
import type { Handler } from "../task.ts";
import type { TraceContext, Tracing } from "../trace-context.ts";
import type { Attempt } from "./attempt.ts";
import { handBack, type Outcome, outcomeOf } from "./outcome.ts";
import type { Middleware, TaskContext } from "./task-context.ts";

interface AttemptParts {
  readonly middleware: readonly Middleware[];
  readonly tracing: Tracing;
  readonly onProgress: (ctx: TaskContext, fraction: number, note: string | undefined) => void;
  readonly upload: Upload;
  readonly batchById: BatchById;
  /** Whether errors are sent with their stacks. */
  readonly stacks: boolean;
}

/** Reaches a batch, for the handler of its tasks. */
export type BatchById = (id: string) => BatchHandle;

/** Stores a file of an attempt. */
export type Upload = (file: Omit<UploadedFile, "worker">) => Promise<Artifact>;

export interface AttemptEnd {
  readonly ctx: TaskContext;
  readonly outcome: Outcome;
  readonly output?: unknown;
  readonly error?: unknown;
}

/** What a server keeps of a task. More would not fit into the message with which it is sent. */
const { logLinesMax: linesMax, progressCharsMax: noteCharsMax } = limits;
const lineCharsMax = 500;
const usedRule = `a whole number from 0 to ${limits.laneUnitsMax}`;
/** The bytes around a result in its message. */
const outputBytesMax = eventBytesMax - 64 * 1024;

export async function runAttempt(attempt: Attempt, parts: AttemptParts): Promise<AttemptEnd> {
  const ctx = new AttemptContext(attempt, parts);
  try {
    const { codec } = attempt.handler.definition;
    if (codec !== undefined) attempt.payload = await codec.decode(attempt.payload);
    const { id, task, attempt: number, trace } = ctx;
    const output = await parts.tracing.handle({ id, task, attempt: number, trace }, () =>
      runThrough(parts.middleware, attempt.handler, ctx),
    );
    const json = await jsonOf(attempt, output);
    return { ctx, output, outcome: { kind: "completed", json, used: attempt.used } };
  } catch (error) {
    const outcome = outcomeOfFailure(attempt, error, parts);
    if (outcome.kind === "hand_back") return { ctx, error, outcome };
    return { ctx, error, outcome: { ...outcome, used: attempt.used } };
  }
}

async function runThrough(
  middleware: readonly Middleware[],
  handler: Handler,
  ctx: TaskContext,
): Promise<unknown> {
  const [first, ...rest] = middleware;
  if (first !== undefined) return first(ctx, () => runThrough(rest, handler, ctx));
  const { input: schema, name } = handler.definition;
  const input =
    schema === undefined
      ? ctx.payload
      : await validate(schema, ctx.payload, { code: "invalid_input", of: `the input of ${name}` });
  return handler.call(input, ctx);
}

async function jsonOf({ handler, id, number }: Attempt, output: unknown): Promise<string> {
  const { output: schema, name, codec } = handler.definition;
  const plain = output instanceof JsonText ? output.text : outputToJson(output);
  const isEncoded = codec !== undefined && plain !== "";
  const json = isEncoded ? await codec.encode(plain, `${id} ${number}`) : plain;
  if (json.length * 3 > outputBytesMax && Buffer.byteLength(json) > outputBytesMax) {
    const text = `the output of ${name} has more than ${outputBytesMax} bytes`;
    throw new CodeqError("invalid_output", `${text}; store it elsewhere and return a reference`);
  }
  if (schema !== undefined) {
    const of = `the output of ${name}`;
    const written = output === undefined ? undefined : JSON.parse(textOf(output));
    await validate(schema, written, { code: "invalid_output", of });
  }
  return json;
}

function textOf(output: unknown): string {
  return output instanceof JsonText ? output.text : JSON.stringify(output);
}

/** Reasons to stop that say nothing about the task. */
const stops: ReadonlySet<string> = new Set(["worker_closing", "lease_lost", "task_cancelled"]);

function outcomeOfFailure(
  attempt: Attempt,
  error: unknown,
  { stacks }: Pick<AttemptParts, "stacks">,
): Outcome {
  const reason = attempt.abortReason;
  // The handler did not fail: it was stopped.
  if (reason !== undefined && stops.has(reason.code)) return handBack;
  const { definition } = attempt.handler;
  return outcomeOf(reason ?? error, definition, { number: attempt.number, stacks });
}

/**
 * A class and not an object with getters of its own: each of those would be of a kind of its own to
 * the engine, which is slow to make and slow to collect.
 */
class AttemptContext implements TaskContext {
  readonly id: string;
  readonly task: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly priority: number;
  readonly tags: readonly string[];
  readonly replayOf: string;
  readonly schedule: TaskContext["schedule"];
  readonly fencingToken: number;
  readonly batch: TaskContext["batch"];
  readonly trace: TraceContext | undefined;
  readonly progress: TaskContext["progress"];
  readonly log: TaskContext["log"];
  readonly lane: string;
  readonly cost: number;
  readonly used: TaskContext["used"];
  readonly artifact: TaskContext["artifact"];
  readonly #attempt: Attempt;
  #payload: { readonly value: unknown } | undefined;

  constructor(attempt: Attempt, { onProgress, upload, batchById }: AttemptParts) {
    this.id = attempt.id;
    this.task = attempt.handler.definition.name;
    this.attempt = attempt.number;
    this.maxAttempts = attempt.task.maxAttempts;
    this.priority = attempt.task.priority;
    this.tags = attempt.task.tags;
    this.replayOf = attempt.task.replayOf;
    const { scheduleId: id, scheduledForMs } = attempt.task;
    this.schedule = id === "" ? undefined : { id, scheduledFor: new Date(Number(scheduledForMs)) };
    this.batch = batchIn(attempt.task, batchById);
    this.fencingToken = Number(attempt.leaseToken);
    this.trace = attempt.trace;
    this.progress = (fraction, note) => {
      const percent = Math.round(Math.min(Math.max(Number(fraction) || 0, 0), 1) * 100);
      attempt.progress = { percent, text: String(note ?? "").slice(0, noteCharsMax) };
      onProgress(this, fraction, note);
    };
    this.log = (line) => {
      attempt.logs.push(String(line).slice(0, lineCharsMax));
      if (attempt.logs.length > linesMax) attempt.logs.shift();
    };
    this.lane = attempt.task.lane;
    this.cost = attempt.task.cost || 1;
    this.used = (units) => {
      const isValid = Number.isInteger(units) && units >= 0 && units <= limits.laneUnitsMax;
      if (!isValid) throw new CodeqError("invalid_option", `invalid units ${units}: ${usedRule}`);
      attempt.used = units;
    };
    this.artifact = (name, content, { contentType } = {}) => {
      const { id: taskId, signal } = attempt;
      const leaseToken = this.fencingToken;
      return upload({ taskId, leaseToken, name, content, contentType, signal });
    };
    this.#attempt = attempt;
  }

  get payload(): unknown {
    this.#payload ??= { value: JSON.parse(this.#attempt.payload) };
    return this.#payload.value;
  }

  get payloadText(): string {
    return this.#attempt.payload;
  }

  get createdAt(): Date {
    return new Date(this.#attempt.task.createdAtMs ?? 0);
  }

  get signal(): AbortSignal {
    return this.#attempt.signal;
  }
}

function batchIn(of: Attempt["task"], batchById: BatchById): TaskContext["batch"] {
  if (of.batchId === "") return undefined;
  const batch = batchById(of.batchId);
  if (!of.isBatchCallback) return batch;
  const [succeeded, failed, cancelled] = [of.batchSucceeded, of.batchFailed, of.batchCancelled];
  const ended = {
    succeeded: Number(succeeded),
    failed: Number(failed),
    cancelled: Number(cancelled),
  };
  return { ...batch, ended };
}
