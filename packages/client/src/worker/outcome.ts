/**
 * The outcome of an attempt, as the server gets it.
 *
 *   completed   the output is the result of the task
 *   failed      the task has failed and is not retried
 *   retry       this attempt failed; the server retries the task, or makes it a dead letter
 *   hand back   the attempt was not finished; the task is ready again and no attempt is counted
 */
import { limits } from "@codeq/protocol";
import type { WireUint64, worker } from "@codeq/protocol/wire";
import { systemClock } from "../clock.ts";
import { CodeqError, messageOf } from "../codeq-error.ts";
import { type Duration, inWords, toMs, toSeconds } from "../duration.ts";
import type { TaskDefinition } from "../task.ts";

/**
 * Trying again would not help: the task fails at once, and `run.result()` rejects with this message.
 *
 * ```ts
 * if (!isImage(bytes)) throw new Permanent("the file is not an image");
 * ```
 */
export class Permanent extends Error {
  override readonly name: string = "Permanent";
}

/**
 * Try again after this time, to the millisecond (the server has a longest delay). It counts as an attempt.
 *
 * ```ts
 * if (reply.status === 429) throw new RetryIn("2m", "the rate limit of the image host");
 * ```
 */
export class RetryIn extends Error {
  override readonly name: string = "RetryIn";
  /** The pause that was asked for. */
  readonly delayMs: number;

  constructor(delay: Duration, reason: string = "", options?: ErrorOptions) {
    super(reason === "" ? `try again in ${delay}` : reason, options);
    this.delayMs = toMs(delay, "delay of RetryIn");
  }
}

/**
 * Another system asks for a pause: holds the lane of the task for this time, in whole seconds (fractions are rounded up).
 * A task without a lane waits by itself. The task keeps its turn, and no attempt is counted, up to 100 times in a row. Takes a
 * duration, or the value of a `Retry-After` header: seconds or a date.
 *
 * ```ts
 * if (reply.status === 429) throw new RateLimited(reply.headers.get("retry-after") ?? "30s");
 * ```
 */
export class RateLimited extends Error {
  override readonly name: string = "RateLimited";
  /** For how long the lane is held. */
  readonly holdMs: number;

  constructor(hold: Duration | string, reason: string = "", options?: ErrorOptions) {
    const holdMs = holdMsOf(hold);
    super(
      reason === "" ? `rate limited for ${inWords(toSeconds(holdMs) * 1000)}` : reason,
      options,
    );
    this.holdMs = holdMs;
  }
}

function holdMsOf(hold: Duration | string): number {
  const seconds = typeof hold === "string" && /^\s*\d+\s*$/.test(hold) ? Number(hold) : undefined;
  // Dates of HTTP have the name of a day, a comma, and GMT.
  const at =
    seconds === undefined && /,.*GMT\s*$/.test(String(hold)) ? Date.parse(String(hold)) : NaN;
  if (!Number.isNaN(at)) return Math.max(0, at - systemClock.nowMs());
  return toMs((seconds === undefined ? hold : seconds * 1000) as Duration, "hold of RateLimited");
}

export type Outcome =
  | { readonly kind: "completed"; readonly json: string; readonly used?: Used }
  | {
      readonly kind: "failed";
      readonly error: string;
      readonly stack: string;
      readonly used?: Used;
    }
  | {
      readonly kind: "retry";
      readonly delayMs: number;
      readonly reason: string;
      readonly stack: string;
      readonly holdSeconds?: number;
      readonly used?: Used;
    }
  | { readonly kind: "hand_back" };

/** Units of the rate that the handler reported. */
export type Used = number | undefined;

export const handBack: Outcome = { kind: "hand_back" };

/** What follows from an error of a handler. */
export function outcomeOf(
  error: unknown,
  { retryDelay }: TaskDefinition,
  { number, stacks }: { readonly number: number; readonly stacks: boolean },
): Outcome {
  const stack = stacks ? stackOf(error) : "";
  if (error instanceof Permanent) return { kind: "failed", error: textOf(error, "error"), stack };
  const reason = textOf(error, "reason");
  const retry = { kind: "retry", delayMs: 0, reason, stack } as const;
  if (error instanceof RetryIn) return { ...retry, delayMs: delayOf(error.delayMs) };
  if (error instanceof RateLimited) {
    const holdSeconds = Math.max(1, Math.min(toSeconds(error.holdMs), limits.holdSecondsMax));
    return { ...retry, holdSeconds };
  }
  if (retryDelay === undefined) return retry;
  try {
    const delay = typeof retryDelay === "function" ? retryDelay(number, error) : retryDelay;
    return { ...retry, delayMs: delayOf(toMs(delay, "retry delay")) };
  } catch (broken) {
    // The handler's error must not be hidden by one in the choice of the delay; both are reported.
    const text = `${reason} (retry.delay failed: ${messageOf(broken)})`;
    return { ...retry, reason: text.slice(0, limits.reasonCharsMax) };
  }
}

const framesMax = 10;
const causesMax = 4;
const errorsMax = 5;
/** Bundlers take `new URL` for a file to copy, and in a bundle of CommonJS there is no URL. */
const here: string | undefined = import.meta.url;
const sources = /^.*(?=worker\/outcome\.)/.exec(here ?? "")?.[0];
/** Files of this library that call handlers: what comes after their frames is the same for every error. */
const callers = ["task.", "worker/gathering.", "worker/run-attempt."].flatMap((file) =>
  sources === undefined ? [] : sources + file,
);

/** Where the error was thrown, without its message, and the same of its causes and of the errors that it joins. */
export function stackOf(thrown: unknown): string {
  // Errors of this library say what is wrong; the frames inside it do not help.
  if (thrown instanceof CodeqError && thrown.cause === undefined) return "";
  return [...linesOf(thrown, 0)].join("\n").slice(0, limits.stackCharsMax);
}

function* linesOf(thrown: unknown, depth: number): Generator<string> {
  if (!(thrown instanceof Error)) return;
  const frames = (thrown.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  const called = frames.findIndex((line) => callers.some((file) => line.includes(file)));
  const own = called > 0 ? frames.slice(0, called) : frames;
  yield* own.filter((line) => !/\bnode:/.test(line)).slice(0, framesMax);
  if (depth === causesMax) return;
  if (thrown instanceof AggregateError) {
    for (const [at, each] of thrown.errors.slice(0, errorsMax).entries()) {
      yield `error ${at + 1} of ${thrown.errors.length}: ${headOf(each)}`;
      yield* linesOf(each, depth + 1);
    }
  }
  if (thrown.cause === undefined) return;
  yield `caused by: ${headOf(thrown.cause)}`;
  yield* linesOf(thrown.cause, depth + 1);
}

/** For people: the error, where it was thrown, and the same of its causes. */
export function reportOf(thrown: unknown): string {
  return [headOf(thrown), stackOf(thrown)].filter((text) => text !== "").join("\n");
}

function headOf(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : messageOf(thrown);
}

/** Zero would leave it to the server's policy. */
function delayOf(ms: number): number {
  return Math.max(1, Math.min(ms, limits.delaySecondsMax * 1000));
}

/** Never empty, and no longer than the server takes. */
function textOf(error: unknown, as: "error" | "reason"): string {
  // What the server says when it notices first.
  if (error instanceof CodeqError && error.code === "task_timeout") return "TIMEOUT";
  const isOurs =
    error instanceof Permanent || error instanceof RetryIn || error instanceof RateLimited;
  const isPlain = !(error instanceof Error) || isOurs || error instanceof CodeqError;
  const text = isPlain ? messageOf(error) : headOf(error);
  const max = as === "error" ? limits.errorCharsMax : limits.reasonCharsMax;
  return (text.trim() === "" ? "the handler failed without a message" : text).slice(0, max);
}

/** The outcome as an event; results of several attempts may share one. */
export function eventOf(
  taskId: string,
  leaseToken: WireUint64,
  outcome: Outcome,
): worker.WorkerEvent {
  switch (outcome.kind) {
    case "completed":
    case "failed":
      return { case: "result", value: resultOf(taskId, leaseToken, outcome) };
    case "retry": {
      const { delayMs, reason, stack, holdSeconds = 0 } = outcome;
      // The seconds are for servers that do not know the milliseconds.
      const delaySeconds = toSeconds(delayMs);
      const used = unitsOf(outcome.used);
      const of = { taskId, leaseToken, delaySeconds, delayMs, holdSeconds, used };
      return { case: "nack", value: { ...of, reason, stack } };
    }
    case "hand_back":
      return { case: "abandon", value: { taskId, leaseToken, interrupted: true } };
  }
}

export function resultOf(
  taskId: string,
  leaseToken: WireUint64,
  outcome: Extract<Outcome, { readonly kind: "completed" | "failed" }>,
): worker.Result {
  // Files were stored before.
  const of = { taskId, leaseToken, artifacts: [], used: unitsOf(outcome.used) };
  return outcome.kind === "completed"
    ? { ...of, status: "COMPLETED", resultJson: outcome.json, error: "", stack: "" }
    : { ...of, status: "FAILED", resultJson: "", error: outcome.error, stack: outcome.stack };
}

function unitsOf(used: Used): worker.Units | undefined {
  return used === undefined ? undefined : { count: used };
}
