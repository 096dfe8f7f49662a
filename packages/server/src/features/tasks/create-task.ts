/** Creates a task. A repeated idempotency key returns the task that was created with it. */
import { hash } from "node:crypto";
import { limits } from "@codeq/protocol";
import type { NewTask, Task, TaskExtras } from "@codeq/queue";
import type { Enqueued, Waiter } from "../../core/broker/verbs.ts";
import { isWebhookUrl } from "../../core/outbound/webhook-url.ts";
import { answerEach } from "../../edge/answer-each.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Rate,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { parseInstant } from "../../edge/parse-instant.ts";
import { answerOf } from "../../edge/refusal-of.ts";

export interface CreateTaskInput {
  readonly command: string;
  /** JSON text, kept as it is. */
  readonly payload: string;
  readonly priority: number;
  readonly webhook: string;
  /** 0 or less for the default. */
  readonly maxAttempts: number;
  readonly idempotencyKey: string;
  /** RFC 3339 or milliseconds; empty for none. Wins over the delay. */
  readonly runAt: string | number;
  readonly delaySeconds: number;
  /** How long an attempt may take; 0 for as long as its worker extends the lease. */
  readonly timeoutSeconds: number;
  /** How long the task may wait for a worker once it can be claimed; 0 for any time. */
  readonly ttlSeconds: number;
  readonly tags: readonly string[];
  /** As they came; malformed ones are left out. */
  readonly traceParent: string;
  readonly traceState: string;
}

export interface CreatedTask {
  readonly task: Task;
  readonly payload: string;
  readonly replayed: boolean;
}

/** A batch counts as its tasks. */
const rate: Rate = { scope: "producer", operation: "create_task" };

export const createTask: Operation<CreateTaskInput, CreatedTask> = {
  name: "create_task",
  access: "producer",
  scope: "codeq:create",
  rate,
  run: (server, call, input) => created(server, call, input),
};

export const createTasks: Operation<readonly CreateTaskInput[], readonly Answer<CreatedTask>[]> = {
  name: "create_tasks",
  access: "producer",
  scope: "codeq:create",
  rate,
  refusalsIn: (answers) => answers.filter((each) => !each.ok).map(({ code }) => code),
  run: async (server, call, inputs) => {
    const { createBatchMax } = server.config;
    if (inputs.length > createBatchMax) {
      return refusal("invalid_argument", `batch size exceeds maximum of ${createBatchMax}`);
    }
    const refused = call.admission.countAs(inputs.length);
    if (refused !== undefined) return refused;
    const answers = await answerEach(inputs.map((input) => created(server, call, input)));
    const [first] = answers.ok ? answers.value : [];
    // As with the storage: what took nothing is refused as a whole, so that clients hold back.
    const isWhole = answers.ok && first?.ok === false && answers.value.every(isOverQuota);
    return isWhole ? first : answers;
  },
};

function isOverQuota(answer: Answer<unknown>): boolean {
  return !answer.ok && answer.code === "quota_exceeded";
}

async function created(
  server: Server,
  call: Call,
  input: CreateTaskInput,
): Promise<Answer<CreatedTask>> {
  const answer = await answerOf<Enqueued>(server, (waiter) => create(server, call, input, waiter));
  return answer.ok ? { ok: true, value: { ...answer.value, payload: input.payload } } : answer;
}

/** Decides about one task. What is not refused at once is answered through the waiter. */
export function create(
  server: Server,
  { identity }: Pick<Call, "identity">,
  input: CreateTaskInput,
  waiter: Waiter<Enqueued>,
  item = 0,
): Refusal | undefined {
  const payloadBytes = Buffer.byteLength(input.payload);
  const problem = problemOf(server, input, payloadBytes);
  if (problem !== undefined) return problem;
  const visible = visibleMs(server.clock.nowMs(), input);
  if (!visible.ok) return visible;
  if (identity.creates?.has(input.command.toLowerCase()) === false) {
    return refusal("event_type_not_allowed");
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
    payloadHash: input.idempotencyKey === "" ? "" : hash("sha256", input.payload),
    // 0 for what the topic of the queue says, or the server.
    maxAttempts: Math.max(input.maxAttempts, 0),
    visibleMs: visible.value,
    extras: extrasOf(input),
  };
  server.queue.enqueue(task, waiter, item);
  return undefined;
}

function problemOf(
  server: Server,
  input: CreateTaskInput,
  payloadBytes: number,
): Refusal | undefined {
  if (!limits.commandPattern.test(input.command)) return refusal("invalid_command");
  if (input.webhook !== "" && !isWebhookUrl(input.webhook)) {
    return refusal("invalid_argument", "invalid webhook url");
  }
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
  if (input.tags.length > 0 && !areTags(input.tags)) return refusal("invalid_argument", tagRule);
  return problemOfTimes(input) ?? payloadProblem(server, payloadBytes);
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
      value: input.delaySeconds > 0 ? nowMs + input.delaySeconds * 1000 : undefined,
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
