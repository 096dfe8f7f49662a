/**
 * The messages between a router and a shard. Each side sends everything of an event loop turn in one message.
 *
 * A message of the router begins with the number of bytes that the router has received so far; calls follow, which
 * are numbered in their order. A message of a shard begins with its head; notes about changes follow, then
 * answers, each with the number of its call.
 */
import { type EngineState, FaultError } from "@codeq/engine";
import {
  type NackRequest,
  type NewTask,
  type Owner,
  type Report,
  type Result,
  type ResultBody,
  type Returned,
  resultOf,
  type Submission,
  type TaskId,
  type TenantId,
  type UniqueRequest,
} from "@codeq/queue";
import type { Exceeded } from "../../config/quotas.ts";
import type { FeedEvent } from "../../telemetry/feed.ts";
import type { AbandonRequest, Extended, Heartbeat } from "../broker/broker.ts";
import type { ClaimRequest } from "../broker/claims/claim.ts";
import type { Usage } from "../broker/tenant-quotas.ts";
import type {
  ClaimedTask,
  Enqueued,
  OwnedTask,
  Refused,
  Submitted,
  TaskAndResult,
} from "../broker/verbs.ts";
import type { EndpointChange } from "../broker/webhooks.ts";
import {
  type Codec,
  double,
  flag,
  json,
  list,
  mapped,
  nothing,
  number,
  oneOf,
  optional,
  struct,
  text,
} from "../store/codec.ts";
import { resultBody, wholeTask as task, taskExtras } from "../store/task-codec.ts";

export { DamagedBytes as DamagedMessage } from "../store/bytes.ts";

/** A kind of message, by its number. */
export interface Message<Value> extends Codec<Value> {
  readonly kind: number;
}

function numbered<Values>(
  first: number,
  table: { readonly [Name in keyof Values]: Codec<Values[Name]> },
): { readonly [Name in keyof Values]: Message<Values[Name]> } {
  const rows = Object.entries<Codec<unknown>>(table as never);
  const messages = rows.map(([name, codec], at) => [name, { ...codec, kind: first + at }]);
  return Object.fromEntries(messages) as never;
}

export type ValueOf<Of> = Of extends Message<infer Value> ? Value : never;

export function byKind(messages: object): ReadonlyMap<number, Message<unknown>> {
  const all: readonly Message<unknown>[] = Object.values(messages);
  return new Map(all.map((message) => [message.kind, message]));
}

/** What the shard of an idempotency key does with a new task, instead of creating it. */
export type EnqueueMode =
  /** The task would exceed a quota, so only a task that exists already may be answered. */
  | { readonly kind: "exceeded"; readonly exceeded: Exceeded }
  /** The key of the task was found at another shard and leads here: nothing is created. */
  | { readonly kind: "known" }
  /** The key of the task leads to a task that is gone. */
  | { readonly kind: "forget" };

type Fault = Pick<FaultError, "code" | "message">;
type Refusal = Exclude<Refused, FaultError>;

interface OfQueue {
  readonly tenantId: TenantId;
  readonly queue: string;
}

export interface ShardHead {
  /** The number of the last call that the shard has carried out. */
  readonly carriedOut: number;
  /** Claims up to there that are not decided yet, because the disk is read for them. */
  readonly undecided: readonly number[];
  readonly isOverloaded: boolean;
}

export const head: Codec<ShardHead> = struct({
  carriedOut: double,
  isOverloaded: flag,
  undecided: list(number),
});

const owned = struct<OwnedTask>({
  tenantId: text,
  id: text,
  owner: struct<Owner>({ workerId: text, leaseToken: optional(double) }),
});

const taskOf = struct<{ readonly tenantId: TenantId; readonly id: TaskId }>({
  tenantId: text,
  id: text,
});

/** A priority, or -1. */
const topPriority = mapped<number, number>(
  number,
  (priority) => priority + 1,
  (priority) => priority - 1,
);

function bodyOf({ resultJson, artifacts }: Result): ResultBody {
  return { json: resultJson, artifacts };
}

const claimedTask = mapped<ClaimedTask, { task: ClaimedTask["task"]; apart: string | undefined }>(
  struct({ task, apart: optional(text) }),
  ({ task: of, payload }) => ({ task: of, apart: payload === of.payload ? undefined : payload }),
  ({ task: of, apart }) => ({ task: of, payload: apart ?? of.payload ?? "" }),
);

function reported<Request>(request: Codec<Request>): Codec<{ of: OwnedTask; request: Request }> {
  return struct({ of: owned, request });
}

/** Answers have smaller numbers than notes. */
export const firstNote = 20;

/** The number of a message is its position: only add at the end. */
export const calls = numbered(1, {
  enqueue: struct<{ input: NewTask; mode: EnqueueMode | undefined }>({
    input: struct<NewTask>({
      tenantId: text,
      command: text,
      // Any number: the rules clamp it.
      priority: double,
      webhook: text,
      traceParent: text,
      traceState: text,
      idempotencyKey: text,
      payload: text,
      payloadBytes: number,
      payloadHash: text,
      keepsFirst: flag,
      maxAttempts: number,
      visibleMs: optional(double),
      extras: optional(taskExtras),
      unique: optional(json<UniqueRequest>()),
      batchId: optional(text),
      lane: optional(text),
      cost: optional(number),
      after: optional(json<readonly TaskId[]>()),
    }),
    mode: optional(json<EnqueueMode>()),
  }),
  claim: struct<ClaimRequest>({
    tenantId: text,
    workerId: text,
    queues: optional(list(text)),
    leaseMs: double,
    count: number,
    waitMs: double,
  }),
  heartbeat: reported(struct<Heartbeat>({ leaseMs: double, report: optional(json<Report>()) })),
  nack: reported(
    struct<NackRequest>({
      delaySeconds: double,
      reason: text,
      stack: optional(text),
      holdMs: optional(number),
      used: optional(number),
    }),
  ),
  abandon: reported(struct<AbandonRequest>({ interrupted: flag })),
  submit: reported(
    struct<Submission>({
      how: oneOf(["failed", "completed"] as const),
      error: text,
      result: resultBody,
      resultBytes: number,
      stack: optional(text),
      used: optional(number),
    }),
  ),
  release: owned,
  get: taskOf,
  outcome: taskOf,
  /** Every other verb of the broker. */
  ask: struct<{ name: string; given: readonly unknown[] }>({ name: text, given: json() }),
  /** The caller does not wait for the answer to this call any more. */
  cancel: number,
  /** Whether there are listeners to events. */
  listen: flag,
});

export const answers = numbered(1, {
  enqueued: struct<Enqueued>({ task, replayed: flag, deduplicated: flag }),
  claimed: list(claimedTask),
  extended: struct<Extended>({ untilMs: double, isCancelled: flag }),
  returned: struct<Returned>({ task, buried: flag, delaySeconds: double }),
  submitted: mapped<Submitted, { task: Submitted["task"]; body: ResultBody; repeated: boolean }>(
    struct({ task, body: resultBody, repeated: flag }),
    ({ task: of, result, repeated }) => ({ task: of, body: bodyOf(result), repeated }),
    ({ task: of, body, repeated }) => ({
      task: of,
      result: resultOf(of, body) as Result,
      repeated,
    }),
  ),
  refused: mapped<Refused, { fault: Fault | undefined; refusal: Refusal | undefined }>(
    struct({
      fault: optional(struct<Fault>({ code: text, message: text })),
      refusal: optional(json<Refusal>()),
    }),
    (why) =>
      why instanceof FaultError
        ? { fault: why, refusal: undefined }
        : { fault: undefined, refusal: why },
    ({ fault, refusal }) =>
      fault === undefined ? (refusal as Refusal) : new FaultError(fault.code, fault.message),
  ),
  found: optional(claimedTask),
  outcome: optional(
    mapped<TaskAndResult, { task: TaskAndResult["task"]; body: ResultBody | undefined }>(
      struct({ task, body: optional(resultBody) }),
      ({ task: of, result }) => ({ task: of, body: result && bodyOf(result) }),
      ({ task: of, body }) => ({ task: of, result: body && resultOf(of, body) }),
    ),
  ),
  asked: json<unknown>(),
  /** The idempotency key belongs to this task of another shard. */
  moved: text,
  /** This shard does not have the idempotency key. */
  unknownKey: nothing,
});

/** What a shard sends besides answers. */
export const notes = numbered(firstNote, {
  /** How many tasks of a queue are ready, the highest priority among them (-1 for none), and the shares of their lanes. */
  hint: struct<OfQueue & { ready: number; topPriority: number; shares: number }>({
    tenantId: text,
    queue: text,
    ready: number,
    topPriority,
    shares: number,
  }),
  /** How many leases a queue with a topic has, and how many it may have over all shards; 0 for any number. */
  leased: struct<OfQueue & { leased: number; max: number; isPlaced: boolean }>({
    tenantId: text,
    queue: text,
    leased: number,
    max: number,
    // Its tasks are created in one shard.
    isPlaced: flag,
  }),
  /** What a tenant with quotas uses. */
  usage: struct<Usage & { readonly tenantId: TenantId }>({
    tenantId: text,
    pending: number,
    leased: number,
    storedBytes: number,
  }),
  event: json<FeedEvent>(),
  /** Events that were left out. */
  missed: number,
  /** A webhook endpoint began to fail, was disabled, or works again. */
  endpoint: json<EndpointChange>(),
  /** The state of the storage, and the error of a storage that has failed. */
  state: struct<{ state: EngineState; error: string | undefined }>({
    state: text,
    error: optional(text),
  }),
  /** All earlier reports about queues and tenants are void; new reports follow. */
  reset: nothing,
});

const firstBytes = 16 * 1024;
const nextBytesMax = 1024 * 1024;

export class MessageWriter {
  #buffer: Buffer = Buffer.allocUnsafeSlow(firstBytes);
  #at = 0;

  get bytes(): number {
    return this.#at;
  }

  put<Value>({ bytesMax, write }: Codec<Value>, value: Value): void {
    this.#reserve(bytesMax(value));
    this.#at = write(this.#buffer, this.#at, value);
  }

  /** A message with the number of its call. */
  send<Value>(message: Message<Value>, call: number, value: Value): void {
    this.#reserve(1 + number.bytesMax(call) + message.bytesMax(value));
    this.#buffer[this.#at] = message.kind;
    const at = number.write(this.#buffer, this.#at + 1, call);
    this.#at = message.write(this.#buffer, at, value);
  }

  note<Value>(message: Message<Value>, value: Value): void {
    this.#reserve(1 + message.bytesMax(value));
    this.#buffer[this.#at] = message.kind;
    this.#at = message.write(this.#buffer, this.#at + 1, value);
  }

  /** Adds what another writer has, which is empty then. */
  append(other: MessageWriter): void {
    const bytes = other.#at;
    this.#reserve(bytes);
    other.#buffer.copy(this.#buffer, this.#at, 0, bytes);
    this.#at += bytes;
    other.#at = 0;
  }

  /** What was written; the next message begins. */
  take(): Uint8Array<ArrayBuffer> {
    const { buffer, byteOffset } = this.#buffer;
    const taken = new Uint8Array(buffer as ArrayBuffer, byteOffset, this.#at);
    const bytes = Math.max(firstBytes, Math.min(this.#at, nextBytesMax));
    this.#buffer = Buffer.allocUnsafeSlow(bytes);
    this.#at = 0;
    return taken;
  }

  #reserve(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#buffer = larger;
  }
}
