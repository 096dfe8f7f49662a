/** How one task is to be treated, checked and turned into the fields of the wire. */
import { limits } from "@codeq/protocol";
import { checkOptions, type OptionNames } from "../check-options.ts";
import { CodeqError, messageOf } from "../codeq-error.ts";
import { type Duration, toMs, toSeconds } from "../duration.ts";
import { validate } from "../payload/standard-schema.ts";
import {
  checkMaxAttempts,
  checkPriority,
  type TaskDefinition,
  type UniqueOptions,
} from "../task.ts";
import type { TraceContext } from "../trace-context.ts";
import type { CreateFields } from "./creations.ts";
import type { Run } from "./run.ts";

/** What one task can have beside its input. */
export interface EnqueueOptions {
  /** Not before this time has passed, to the millisecond. */
  readonly delay?: Duration | undefined;
  /** Not before this moment; a date or milliseconds since 1970. Wins over `delay`. */
  readonly runAt?: Date | number | undefined;
  /** 0 to 9, higher first. Default: the priority of the task. */
  readonly priority?: number | undefined;
  /** Attempts before the task becomes a dead letter. Default: the number of the task. */
  readonly maxAttempts?: number | undefined;
  /**
   * Enqueueing the same task again with the same key gives the task that is there. Without one the
   * client makes a key for every call, so that it can try again when an answer is missing.
   */
  readonly idempotencyKey?: string | undefined;
  /**
   * What a key does whose first request had another input: `strict` refuses this one, `first` gives the first
   * task. Default: the setting of the server, which is `strict` unless it was changed.
   */
  readonly idempotencyMode?: "strict" | "first" | undefined;
  /** One task at a time for a key. Default: the `unique` of the task. */
  readonly unique?: UniqueOptions | undefined;
  /** What limits, rates and fair shares of the queue apply to. Default: the `lane` of the task. */
  readonly lane?: string | undefined;
  /** Units of rates and fair shares. Default: the `cost` of the task. */
  readonly cost?: number | undefined;
  /**
   * How long a worker may take for one attempt, in whole seconds (fractions are rounded up). Then
   * `ctx.signal` is aborted and the server retries the task, or makes it a dead letter with the error `TIMEOUT`.
   */
  readonly executionTimeout?: Duration | undefined;
  /**
   * How long the task may wait for a worker once it may be claimed, in whole seconds (fractions are rounded
   * up). A task that no worker begins in time fails with `EXPIRED`; retries are not concerned.
   */
  readonly ttl?: Duration | undefined;
  /** Labels to find the task by: at most 16, each 1 to 64 characters without spaces and commas. */
  readonly tags?: readonly string[] | undefined;
  /** The id of an open batch that the task becomes a member of. */
  readonly batch?: string | undefined;
  /**
   * Tasks, or their ids, that have to succeed before this task can run; it becomes a dead letter when one of them
   * does not.
   */
  readonly after?: readonly (string | Pick<Run<unknown>, "id">)[] | undefined;
  /** The server posts the result there. */
  readonly webhook?: string | undefined;
  /** How long to try until the task is stored. Default: `"30s"`. */
  readonly timeout?: Duration | undefined;
  /** Stops waiting. A task that was already sent may still be stored. */
  readonly signal?: AbortSignal | undefined;
}

/** What a task needs besides its input; a task without input needs none. */
export type EnqueueArguments<Input> = undefined extends Input
  ? [input?: Input, options?: EnqueueOptions]
  : [input: Input, options?: EnqueueOptions];

const enqueueOptionNames: OptionNames<EnqueueOptions> = {
  delay: true,
  runAt: true,
  priority: true,
  maxAttempts: true,
  unique: true,
  lane: true,
  cost: true,
  executionTimeout: true,
  ttl: true,
  tags: true,
  batch: true,
  webhook: true,
  idempotencyKey: true,
  idempotencyMode: true,
  timeout: true,
  signal: true,
  after: true,
};
const uniqueNames: OptionNames<UniqueOptions> = {
  key: true,
  while: true,
  on: true,
  for: true,
  maxWait: true,
};

/** Less than the limit of a message to the server. */
const payloadBytesMax = 4 * 1024 * 1024 - 64 * 1024;

/** The JSON text of an input; throws when the schema of the task refuses it. */
export async function payloadOf(definition: TaskDefinition, input: unknown): Promise<string> {
  const payload = jsonOf(definition, input);
  checkBytes(definition, payload);
  if (definition.input !== undefined) {
    // What the worker will get is checked, not what was passed: a date, say, arrives as text.
    const of = `the input of ${definition.name}`;
    await validate(definition.input, JSON.parse(payload), { code: "invalid_input", of });
  }
  return payload;
}

function checkBytes({ name }: TaskDefinition, payload: string): void {
  if (payload.length * 3 <= payloadBytesMax) return;
  if (new TextEncoder().encode(payload).length <= payloadBytesMax) return;
  const text = `the input of ${name} has more than ${payloadBytesMax} bytes`;
  throw new CodeqError("payload_too_large", `${text}; store it elsewhere and send a reference`);
}

/** The same text as the server gets it. What is enqueued again under the same key has the same salt. */
export async function storedPayload(
  definition: TaskDefinition,
  payload: string,
  salt: string,
): Promise<string> {
  if (definition.codec === undefined) return payload;
  const stored = await definition.codec.encode(payload, salt);
  checkBytes(definition, stored);
  return stored;
}

function jsonOf({ name }: TaskDefinition, input: unknown): string {
  if (input === undefined) return "null";
  try {
    const text: string | undefined = JSON.stringify(input);
    if (text !== undefined) return text;
  } catch (cause) {
    const text = `the input of ${name} cannot be written as JSON: ${messageOf(cause)}`;
    throw new CodeqError("invalid_input", text, { cause });
  }
  const text = `the input of ${name} cannot be written as JSON: it is a ${typeof input}`;
  throw new CodeqError("invalid_input", text);
}

export async function createFields(
  definition: TaskDefinition,
  options: EnqueueOptions,
  more: {
    readonly payload: string;
    readonly ownKey: string;
    readonly trace: TraceContext | undefined;
  },
): Promise<CreateFields & { readonly payload: string }> {
  const { priority = definition.priority, maxAttempts = definition.maxAttempts } = options;
  checkOptions(options, enqueueOptionNames, ` for the task ${definition.name}`);
  checkPriority(priority);
  checkMaxAttempts(maxAttempts);
  const idempotencyKey = keyOf(options) ?? more.ownKey;
  return {
    command: definition.name,
    payload: await storedPayload(definition, more.payload, idempotencyKey),
    priority,
    webhook: options.webhook ?? "",
    maxAttempts: maxAttempts ?? 0,
    idempotencyKey,
    idempotencyMode: options.idempotencyMode ?? "",
    ...uniqueFields(options.unique ?? definition.unique, more.payload),
    batchId: options.batch ?? "",
    after: options.after?.map((each) => (typeof each === "string" ? each : each.id)) ?? noTags,
    ...laneFields(definition, options, more.payload),
    runAtMs: options.runAt === undefined ? undefined : momentOf(options.runAt),
    ...delayFields(options),
    traceParent: more.trace?.traceparent ?? "",
    traceState: more.trace?.tracestate ?? "",
    tags: options.tags === undefined ? noTags : checkTags(options.tags),
    timeoutSeconds: secondsOf(options, "executionTimeout", limits.timeoutSecondsMax),
    ttlSeconds: secondsOf(options, "ttl", limits.ttlSecondsMax),
  };
}

type UniqueFields = Pick<
  CreateFields,
  "uniqueKey" | "uniqueWhile" | "uniqueOn" | "uniqueFor" | "uniqueMaxWait"
>;

const noUnique: UniqueFields = {
  uniqueKey: "",
  uniqueWhile: "",
  uniqueOn: "",
  uniqueFor: "",
  uniqueMaxWait: "",
};

export function uniqueFields(unique: UniqueOptions | undefined, payload: string): UniqueFields {
  if (unique === undefined) return noUnique;
  checkOptions(unique, uniqueNames, " of unique");
  const { key: given, while: uniqueWhile = "", on: uniqueOn = "" } = unique;
  const uniqueKey = typeof given === "string" ? given : given(JSON.parse(payload));
  const max = limits.uniqueKeyCharsMax;
  if (typeof uniqueKey !== "string" || uniqueKey === "" || uniqueKey.length > max) {
    throw new CodeqError("invalid_option", `invalid unique.key: 1 to ${max} characters`);
  }
  const lengthOf = (name: "for" | "maxWait"): string => {
    const length = unique[name];
    return length === undefined ? "" : `${Math.ceil(toMs(length, `unique.${name}`))}ms`;
  };
  const [uniqueFor, uniqueMaxWait] = [lengthOf("for"), lengthOf("maxWait")];
  return { uniqueKey, uniqueWhile, uniqueOn, uniqueFor, uniqueMaxWait };
}

export function laneFields(
  definition: TaskDefinition,
  options: Pick<EnqueueOptions, "lane" | "cost">,
  payload: string,
): Pick<CreateFields, "lane" | "cost"> {
  const { lane: givenLane = definition.lane, cost: givenCost = definition.cost } = options;
  if (givenLane === undefined && givenCost === undefined) return noLane;
  const input: unknown = JSON.parse(payload);
  const lane = typeof givenLane === "function" ? givenLane(input) : (givenLane ?? "");
  const cost = typeof givenCost === "function" ? givenCost(input) : (givenCost ?? 1);
  const max = limits.laneUnitsMax;
  if (!Number.isInteger(cost) || cost < 1 || cost > max) {
    throw new CodeqError("invalid_option", `invalid cost ${cost}: a whole number from 1 to ${max}`);
  }
  return { lane: checkLane(lane), cost };
}

const noLane = { lane: "", cost: 0 };

function checkLane(lane: string): string {
  const max = limits.laneBytesMax;
  const isText = typeof lane === "string" && lane !== "." && lane !== "..";
  if (isText && new TextEncoder().encode(lane).length <= max) return lane;
  const rule = `a text of at most ${max} bytes, and not . or ..`;
  throw new CodeqError("invalid_option", `invalid lane ${JSON.stringify(lane)}: ${rule}`);
}

const noTags: string[] = [];

function checkTags(tags: readonly string[]): string[] {
  if (tags.length <= limits.tagsMax && tags.every((tag) => limits.tagPattern.test(tag))) {
    return [...tags];
  }
  const rule = `at most ${limits.tagsMax}, each 1 to 64 characters without spaces and commas`;
  throw new CodeqError("invalid_option", `invalid tags ${JSON.stringify(tags)}: ${rule}`);
}

function keyOf({ idempotencyKey }: EnqueueOptions): string | undefined {
  if (idempotencyKey === undefined) return undefined;
  const max = limits.idempotencyKeyCharsMax;
  if (idempotencyKey !== "" && idempotencyKey.length <= max) return idempotencyKey;
  throw new CodeqError("invalid_option", `invalid idempotencyKey: 1 to ${max} characters`);
}

function momentOf(runAt: Date | number): number {
  const ms = Number(runAt);
  if (Number.isFinite(ms)) return Math.ceil(ms);
  const rule = "give a Date, or milliseconds since 1970";
  throw new CodeqError("invalid_option", `invalid runAt ${String(runAt)}: ${rule}`);
}

/** The seconds are for servers that do not know the milliseconds. */
function delayFields(options: EnqueueOptions): Pick<CreateFields, "delaySeconds" | "delayMs"> {
  const delaySeconds = secondsOf(options, "delay", limits.delaySecondsMax);
  return { delaySeconds, delayMs: options.delay === undefined ? 0 : toMs(options.delay, "delay") };
}

function secondsOf(
  options: EnqueueOptions,
  name: "delay" | "executionTimeout" | "ttl",
  max: number,
): number {
  const given = options[name];
  if (given === undefined) return 0;
  const seconds = toSeconds(toMs(given, name));
  if (seconds <= max) return seconds;
  const text = `invalid ${name} ${JSON.stringify(given)}: at most ${max} seconds`;
  throw new CodeqError("invalid_option", text);
}

/** The outcome for one of several tasks: it is stored, or the reason why not. */
export type EnqueueOutcome<Output> =
  | { readonly ok: true; readonly run: Run<Output> }
  | { readonly ok: false; readonly error: unknown };

/** What `enqueueMany` rejects with when some tasks are not stored. */
export class EnqueueManyError extends CodeqError {
  override readonly name: string = "EnqueueManyError";
  /** In the order of the items. */
  readonly outcomes: readonly EnqueueOutcome<unknown>[];

  constructor(outcomes: readonly EnqueueOutcome<unknown>[]) {
    const refused = outcomes.filter((outcome) => !outcome.ok);
    const [first] = refused;
    const why = first === undefined ? "" : messageOf(first.error);
    super("some_refused", `${refused.length} of ${outcomes.length} tasks are not stored: ${why}`);
    this.outcomes = outcomes;
  }
}
