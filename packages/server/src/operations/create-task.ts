/** Puts new work into a queue. A repeated idempotency key answers with the task it made before. */
import { hash } from "node:crypto";
import { limits } from "@codeq/protocol";
import type { Task, TenantId } from "@codeq/queue";
import type { Decided, EnqueueRequest } from "../broker/broker-requests.ts";
import type { MaybePromise } from "../maybe-promise.ts";
import { answerEach } from "./answer-each.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Rate,
  refusal,
  type Server,
} from "./operation.ts";
import { overQuota } from "./over-quota.ts";
import { parseInstant } from "./parse-instant.ts";

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
  run: (server, call, input) => finish(server, create(server, call, input)),
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
    const created = inputs.map((input) => create(server, call, input));
    const [first] = created;
    // As with the storage: what took nothing is refused as a whole, so that clients hold back.
    if (first?.ok === false && created.every(isOverQuota)) return first;
    return answerEach(created.map((each) => finish(server, each)));
  },
};

function isOverQuota(answer: Answer<unknown>): boolean {
  return !answer.ok && answer.code === "quota_exceeded";
}

/** Tells of the task once it is durable. */
function finish(
  server: Server,
  created: Answer<Decided<CreatedTask>>,
): MaybePromise<Answer<CreatedTask>> {
  if (!created.ok) return created;
  const { value, done } = created.value;
  return done.then(() => ({ ok: true, value: announce(server, value) }));
}

function create(server: Server, call: Call, input: CreateTaskInput): Answer<Decided<CreatedTask>> {
  const { tenantId, creates } = call.identity;
  const request = toRequest(server, tenantId, input);
  if (!request.ok) return request;
  if (creates?.has(input.command.toLowerCase()) === false) return refusal("event_type_not_allowed");
  const outcome = server.broker.enqueue(request.value);
  if (!outcome.ok) {
    const isOver = outcome.code === "quota_exceeded";
    return isOver ? overQuota(server, outcome.exceeded) : refusal(outcome.code);
  }
  const { value, done } = outcome.value;
  return { ok: true, value: { value: { ...value, payload: input.payload }, done } };
}

function announce(server: Server, created: CreatedTask): CreatedTask {
  if (!created.replayed) server.events.taskCreated(created.task);
  return created;
}

function toRequest(
  server: Server,
  tenantId: TenantId,
  input: CreateTaskInput,
): Answer<EnqueueRequest> {
  const problem = problemOf(server, input);
  if (problem !== undefined) return problem;
  const visible = visibleMs(server.clock.nowMs(), input);
  if (!visible.ok) return visible;
  const { maxAttemptsDefault } = server.config;
  const { command, payload, priority, webhook, idempotencyKey, traceParent, traceState } = input;
  return {
    ok: true,
    value: {
      tenantId,
      command,
      payload,
      priority,
      webhook,
      idempotencyKey,
      traceParent,
      traceState,
      maxAttempts: input.maxAttempts <= 0 ? maxAttemptsDefault : input.maxAttempts,
      visibleMs: visible.value,
      payloadHash: idempotencyKey === "" ? "" : hash("sha256", payload),
    },
  };
}

function problemOf(server: Server, input: CreateTaskInput): Answer<never> | undefined {
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
  const { payloadBytesMax } = server.config;
  if (Buffer.byteLength(input.payload) > payloadBytesMax) {
    return refusal("payload_too_large", `payload is larger than ${payloadBytesMax} bytes`);
  }
  return undefined;
}

/** When the task may be claimed; undefined for at once. */
function visibleMs(nowMs: number, input: CreateTaskInput): Answer<number | undefined> {
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

function isWebhookUrl(text: string): boolean {
  if (text.length > limits.webhookCharsMax || !URL.canParse(text)) return false;
  const url = new URL(text);
  return (url.protocol === "http:" || url.protocol === "https:") && url.hostname !== "";
}
