/** Creates a task. A repeated idempotency key returns the task that was created with it. */
import { hash } from "node:crypto";
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import type { NewTask, Task, TaskExtras, TaskId } from "@codeq/queue";
import type { Enqueued, Waiter } from "../../core/broker/verbs.ts";
import { problemOfUrl } from "../../core/outbound/webhook-url.ts";
import { isLaneName, laneRule } from "../../core/records/lane-policy.ts";
import { readUnique, type UniqueInput } from "../../core/records/unique-record.ts";
import { parseInstant } from "../../core/timestamps.ts";
import { bindByHand } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { answerEach, answerOf } from "../../edge/refusal-of.ts";

export interface CreateTaskInput {
  readonly command: string;
  /** JSON text, kept as it is. */
  readonly payload: string;
  readonly priority: number;
  readonly webhook: string;
  /** 0 or less for the default. */
  readonly maxAttempts: number;
  readonly idempotencyKey: string;
  /** `strict` or `first`; empty for the setting of the server. */
  readonly idempotencyMode: string;
  readonly unique: UniqueInput | undefined;
  /** The batch that the task becomes a member of; empty for none. */
  readonly batchId: string;
  /** Ids of tasks that have to succeed before. */
  readonly after?: readonly string[];
  /** Empty for none. */
  readonly lane?: string | undefined;
  /** 0 for 1. */
  readonly cost?: number | undefined;
  /** RFC 3339 or milliseconds; empty for none. Wins over the delay. */
  readonly runAt: string | number;
  readonly delaySeconds: number;
  /** How long an attempt may take; 0 for as long as its worker extends the lease. */
  readonly timeoutSeconds: number;
  /** How long the task may wait for a worker once it can be claimed; 0 for any time. */
  readonly ttlSeconds: number;
  readonly tags: readonly string[];
  /** The trace context as it came; a malformed one is left out. */
  readonly traceParent: string;
  readonly traceState: string;
}

export interface CreatedTask {
  readonly task: Task;
  readonly payload: string;
  readonly replayed: boolean;
  readonly deduplicated: boolean;
}

export const createTask = bindByHand<CreateTaskInput, CreatedTask>(api.work.createTask, {
  run: (server, call, input) => created(server, call, input),
});

export const createTasks = bindByHand<readonly CreateTaskInput[], readonly Answer<CreatedTask>[]>(
  api.work.createTasks,
  {
    refusalsIn: (answers) => answers.filter((each) => !each.ok).map(({ code }) => code),
    run: async (server, call, inputs) => {
      const { createBatchMax } = server.config;
      if (inputs.length > createBatchMax) {
        return refusal("invalid_argument", `batch size exceeds maximum of ${createBatchMax}`);
      }
      // A batch counts as its tasks.
      const refused = call.admission.countAs(inputs.length);
      if (refused !== undefined) return refused;
      const answers = await createEach(server, call, inputs);
      const [first] = answers.ok ? answers.value : [];
      // As with the storage: what took nothing is refused as a whole, so that clients hold back.
      const isWhole = answers.ok && first?.ok === false && answers.value.every(isOverQuota);
      return isWhole ? first : answers;
    },
  },
);

/** Tasks of `after` that are looked at before others have their turn. */
const awaitedAtOnceMax = 1000;

async function createEach(
  server: Server,
  call: Call,
  inputs: readonly CreateTaskInput[],
): Promise<Answer<readonly Answer<CreatedTask>[]>> {
  const answers: Answer<CreatedTask>[] = [];
  let next = 0;
  while (next < inputs.length) {
    const piece: Promise<Answer<CreatedTask>>[] = [];
    for (let awaited = 0; next < inputs.length && awaited < awaitedAtOnceMax; next++) {
      const input = inputs[next] as CreateTaskInput;
      awaited += input.after?.length ?? 0;
      piece.push(created(server, call, input));
    }
    answers.push(...(await Promise.all(piece)));
  }
  return answerEach(answers);
}

function isOverQuota(answer: Answer<unknown>): boolean {
  return !answer.ok && answer.code === "quota_exceeded";
}

async function created(
  server: Server,
  call: Call,
  input: CreateTaskInput,
): Promise<Answer<CreatedTask>> {
  const answer = await answerOf<Enqueued>(server, (waiter) => create(server, call, input, waiter));
  if (!answer.ok) {
    noteRefused(server, call, input, answer);
    return answer;
  }
  const { replayed, deduplicated } = answer.value;
  const isOther = deduplicated || (replayed && keepsFirst(server, call, input));
  const payload = isOther ? await payloadOf(server, call, answer.value) : input.payload;
  return { ok: true, value: { ...answer.value, payload } };
}

/** Tracing has a span for a task that was not created. */
export function noteRefused(
  { events }: Pick<Server, "events">,
  { identity }: Pick<Call, "identity">,
  sent: Pick<CreateTaskInput, "command" | "traceParent" | "traceState">,
  { code }: Refusal,
): void {
  const { command, traceParent, traceState } = sent;
  const { tenantId } = identity;
  events.taskRefused({ because: "created", code, tenantId, command, traceParent, traceState });
}

/** The payload of a task that was there before: the first request may have had another one. */
async function payloadOf(server: Server, { identity }: Call, { task }: Enqueued): Promise<string> {
  if (identity.hidesPayloads) return "null";
  return (await server.broker.get(identity.tenantId, task.id))?.payload ?? "null";
}

/** A caller from whom payloads are hidden could guess a payload by a mode in which the answer depends on it. */
function keepsFirst(
  { config }: Pick<Server, "config">,
  { identity }: Pick<Call, "identity">,
  { idempotencyMode }: CreateTaskInput,
): boolean {
  return identity.hidesPayloads || (idempotencyMode || config.idempotencyMode) === "first";
}

/** Decides about one task. What is not refused at once is answered through the waiter. */
export function create(
  server: Server,
  call: Pick<Call, "identity">,
  input: CreateTaskInput,
  waiter: Waiter<Enqueued>,
  item = 0,
): Refusal | undefined {
  const { identity } = call;
  const payloadBytes = Buffer.byteLength(input.payload);
  const problem = problemOf(server, input, payloadBytes);
  if (problem !== undefined) return problem;
  const visible = visibleMs(server.clock.nowMs(), input);
  if (!visible.ok) return visible;
  if (identity.creates?.has(input.command.toLowerCase()) === false) {
    return refusal("event_type_not_allowed");
  }
  const unique = input.unique && readUnique(input.unique);
  if (unique?.ok === false) {
    return refusal("invalid_argument", `invalid 'unique.${unique.field}' (${unique.rule})`);
  }
  const { traceParent, traceState } = traceContext(input.traceParent, input.traceState);
  const task: NewTask = {
    tenantId: identity.tenantId,
    command: input.command,
    priority: input.priority,
    webhook: input.webhook,
    traceParent,
    traceState,
    idempotencyKey: input.idempotencyKey,
    payload: input.payload,
    payloadBytes,
    payloadHash: input.idempotencyKey === "" ? "" : hash("sha256", requestOf(input)),
    keepsFirst: input.idempotencyKey !== "" && keepsFirst(server, call, input),
    // 0 for what the topic of the queue says, or the server.
    maxAttempts: Math.max(input.maxAttempts, 0),
    visibleMs: visible.value,
    extras: extrasOf(input),
    unique: unique?.value,
    batchId: input.batchId === "" ? undefined : input.batchId,
    after: input.after?.length ? ([...new Set(input.after)] as TaskId[]) : undefined,
    lane: input.lane,
    cost: input.cost,
  };
  server.broker.enqueue(task, waiter, item);
  return undefined;
}

/** What has to be the same for the same idempotency key, beside the command. */
function requestOf({ batchId, after = [], payload }: CreateTaskInput): string {
  const place = [batchId, ...after].join(" ");
  return place === "" ? payload : `${place}\0${payload}`;
}

function problemOf(
  server: Server,
  input: CreateTaskInput,
  payloadBytes: number,
): Refusal | undefined {
  if (!limits.commandPattern.test(input.command)) return refusal("invalid_command");
  const urlProblem = input.webhook && problemOfUrl("webhook", input.webhook, server.config);
  if (urlProblem) return refusal("invalid_argument", urlProblem);
  if (input.maxAttempts > limits.maxAttemptsMax) {
    return refusal(
      "invalid_argument",
      `invalid 'maxAttempts' (must be <= ${limits.maxAttemptsMax})`,
    );
  }
  if (input.idempotencyKey.length > limits.idempotencyKeyCharsMax) {
    const max = limits.idempotencyKeyCharsMax;
    return refusal("invalid_argument", `invalid 'idempotencyKey' (at most ${max} characters)`);
  }
  if (!input.idempotencyKey.isWellFormed()) {
    return refusal("invalid_argument", "invalid 'idempotencyKey' (must be valid Unicode)");
  }
  const ofBatch = problemOfBatch(input) ?? problemOfAfter(input);
  if (ofBatch !== undefined) return refusal("invalid_argument", ofBatch);
  if (!modes.includes(input.idempotencyMode)) return refusal("invalid_argument", modeRule);
  if (input.tags.length > 0 && !areTags(input.tags)) return refusal("invalid_argument", tagRule);
  return problemOfLane(input) ?? problemOfTimes(input) ?? payloadProblem(server, payloadBytes);
}

function problemOfBatch({ batchId, unique }: CreateTaskInput): string | undefined {
  if (batchId === "") return undefined;
  if (!limits.schedulePattern.test(batchId)) return "invalid 'batchId' (the id of a batch)";
  return unique === undefined ? undefined : noUniqueMembers;
}

function problemOfAfter(input: CreateTaskInput): string | undefined {
  const { after = [], batchId, unique, runAt, delaySeconds } = input;
  if (after.length === 0) return undefined;
  const { afterMax, taskIdPattern } = limits;
  if (after.length > afterMax || !after.every((id) => taskIdPattern.test(id))) {
    return `invalid 'after' (ids of 1 to ${afterMax} tasks)`;
  }
  if (batchId !== "") return "a member of a batch cannot have 'after'; add it when they have ended";
  if (unique !== undefined) return "a task with 'after' cannot have a unique key";
  const hasTime = runAt !== "" || delaySeconds > 0;
  return hasTime ? "a task with 'after' cannot have a time; leave out one of them" : undefined;
}

function problemOfLane({ lane = "", cost = 0 }: CreateTaskInput): Refusal | undefined {
  const { laneUnitsMax } = limits;
  if (cost < 0 || cost > laneUnitsMax) {
    return refusal("invalid_argument", `invalid 'cost' (0 to ${laneUnitsMax})`);
  }
  if (lane === "" || isLaneName(lane)) return undefined;
  return refusal("invalid_argument", `invalid 'lane' (${laneRule})`);
}

function problemOfTimes({ timeoutSeconds, ttlSeconds }: CreateTaskInput): Refusal | undefined {
  const { timeoutSecondsMax, ttlSecondsMax } = limits;
  if (timeoutSeconds < 0 || timeoutSeconds > timeoutSecondsMax) {
    return refusal("invalid_argument", `invalid 'timeoutSeconds' (0 to ${timeoutSecondsMax})`);
  }
  if (ttlSeconds < 0 || ttlSeconds > ttlSecondsMax) {
    return refusal("invalid_argument", `invalid 'ttlSeconds' (0 to ${ttlSecondsMax})`);
  }
  return undefined;
}

export function payloadProblem(
  { config: { payloadBytesMax } }: Pick<Server, "config">,
  payloadBytes: number,
): Refusal | undefined {
  if (payloadBytes <= payloadBytesMax) return undefined;
  return refusal("payload_too_large", `payload is larger than ${payloadBytesMax} bytes`);
}

const noUniqueMembers =
  "a member of a batch cannot have a unique key: the task that holds the key may belong to no batch, so that the " +
  "callback would not wait for it; leave out unique, or use an idempotency key";
const modes: readonly string[] = ["", "strict", "first"];
const modeRule = "invalid 'Codeq-Idempotency-Mode' (must be strict or first)";

const tagRule = `invalid 'tags' (at most ${limits.tagsMax}, each 1 to 64 characters without spaces and commas)`;

function areTags(tags: readonly string[]): boolean {
  return tags.length <= limits.tagsMax && tags.every((tag) => limits.tagPattern.test(tag));
}

function extrasOf({ tags, timeoutSeconds, ttlSeconds }: CreateTaskInput): TaskExtras | undefined {
  if (tags.length === 0 && timeoutSeconds === 0 && ttlSeconds === 0) return undefined;
  return {
    tags: [...new Set(tags)],
    timeoutMs: timeoutSeconds * 1000,
    ttlMs: ttlSeconds * 1000,
    startByMs: 0,
  };
}

export type TimeInput = Pick<CreateTaskInput, "runAt" | "delaySeconds">;

/** When the task may be claimed; undefined for at once. */
export function visibleMs(nowMs: number, input: TimeInput): Answer<number | undefined> {
  if (input.delaySeconds < 0) {
    return refusal("invalid_argument", "invalid 'delaySeconds' (must be >= 0)");
  }
  const max = limits.delaySecondsMax;
  if (input.delaySeconds > max) {
    return refusal("invalid_argument", `invalid 'delaySeconds' (must be <= ${max})`);
  }
  if (input.runAt === "") {
    return {
      ok: true,
      value: input.delaySeconds > 0 ? nowMs + Math.round(input.delaySeconds * 1000) : undefined,
    };
  }
  const runAtMs = typeof input.runAt === "number" ? input.runAt : parseInstant(input.runAt);
  if (runAtMs === undefined) return refusal("invalid_argument", "invalid 'runAt' (use RFC3339)");
  if (runAtMs > nowMs + max * 1000) {
    return refusal("invalid_argument", `invalid 'runAt' (at most ${max} seconds ahead)`);
  }
  return { ok: true, value: runAtMs };
}

const parentPattern = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const statePattern = /^[\t\x20-\x7e]*$/;

/**
 * The W3C trace context of a caller. A malformed context is dropped, as the specification requires, so every
 * stored context can be sent on as a header.
 */
function traceContext(parent: string, state: string): { traceParent: string; traceState: string } {
  if (!parentPattern.test(parent)) return { traceParent: "", traceState: "" };
  const hasState = state.length <= limits.traceCharsMax && statePattern.test(state);
  return { traceParent: parent, traceState: hasState ? state : "" };
}
