/** The hot routes of producers and workers: requests become inputs, and answers text, by hand. */
import { limits } from "@codeq/protocol";
import type {
  AbandonBody,
  ClaimBatchBody,
  ClaimBody,
  CreateBatchBody,
  CreateBody,
  HeartbeatBody,
  KeptOf,
  NackBody,
  NewResult,
  NewTask,
  ResultBatchBody,
  ResultBody,
} from "@codeq/protocol/api";
import type { TaskId } from "@codeq/queue";
import { byHand } from "../../edge/http/contract/contract-route.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { type HttpRequest, json } from "../../edge/http/route.ts";
import type { Answer, Refusal } from "../../edge/operation.ts";
import { claimTasks } from "./claim-tasks.ts";
import { type CreateTaskInput, createTask, createTasks } from "./create-task.ts";
import { extendLease } from "./extend-lease.ts";
import { abandonTask, nackTask } from "./return-task.ts";
import {
  type SubmitResultInput,
  type SubmittedResult,
  submitResult,
  submitResults,
} from "./submit-result.ts";

const noneReady = { status: 204, body: undefined } as const;

export const taskRoutes = {
  createTask: byHand({
    operation: createTask,
    input: (request) => createInput(request.body as KeptOf<typeof CreateBody>, request),
    reply: ({ task, payload, replayed, deduplicated }, codec, { body }) => ({
      status: 202,
      body: deduplicated
        ? `${codec.task(task, payload).slice(0, -1)},"deduplicated":true}`
        : codec.task(task, payload),
      headers: {
        ...(replayed ? { "Idempotent-Replayed": "true" } : {}),
        ...priorityNote(body as KeptOf<typeof CreateBody>, task.priority),
      },
    }),
  }),
  createTasks: byHand({
    operation: createTasks,
    input: (request) => {
      const { tasks } = request.body as KeptOf<typeof CreateBatchBody>;
      return tasks.map((item) => createInput(item, request));
    },
    reply: (answers, codec, { body }) => {
      const { tasks: sent } = body as KeptOf<typeof CreateBatchBody>;
      return json(
        results(answers, ({ task, payload, replayed, deduplicated }, at) => {
          const mark = replayed ? `,"idempotentReplayed":true` : "";
          const unique = deduplicated ? `,"deduplicated":true` : "";
          const set = isPriority(sent[at]?.priority) ? "" : `,"prioritySet":${task.priority}`;
          return `{"task":${codec.task(task, payload)}${mark}${unique}${set}}`;
        }),
      );
    },
  }),
  claimTask: byHand({
    operation: claimTasks,
    waits: ({ waitSeconds }) => waitSeconds > 0,
    input: ({ body }) => {
      const { commands, leaseSeconds, waitSeconds } = body as KeptOf<typeof ClaimBody>;
      return {
        commands: commands ?? [],
        leaseSeconds: leaseSeconds ?? 0,
        waitSeconds: Math.min(waitSeconds ?? 0, limits.claimWaitSecondsMax),
        count: 1,
      };
    },
    reply: ([claimed], codec) =>
      claimed === undefined ? noneReady : json(codec.task(claimed.task, claimed.payload)),
  }),
  claimTasks: byHand({
    operation: claimTasks,
    input: ({ body }) => {
      const { commands, leaseSeconds, count } = body as KeptOf<typeof ClaimBatchBody>;
      return { commands: commands ?? [], leaseSeconds: leaseSeconds ?? 0, waitSeconds: 0, count };
    },
    reply: (claimed, codec) => {
      if (claimed.length === 0) return noneReady;
      const tasks = claimed.map(({ task, payload }) => codec.task(task, payload));
      return json(`{"tasks":[${tasks.join(",")}]}`);
    },
  }),
  extendLease: byHand({
    operation: extendLease,
    input: ({ params, body }) => {
      const beat = body as KeptOf<typeof HeartbeatBody>;
      const { extendSeconds = 0, leaseToken, progress, logs = [] } = beat;
      const said = progress && { percent: progress.percent ?? 0, text: progress.text ?? "" };
      return { ...owned(params, leaseToken), extendSeconds, progress: said, logs };
    },
    reply: ({ isCancelled }) => json(isCancelled ? `{"ok":true,"cancelled":true}` : `{"ok":true}`),
  }),
  abandonTask: byHand({
    operation: abandonTask,
    input: ({ params, body }) => {
      const { interrupted, leaseToken } = (body ?? {}) as KeptOf<typeof AbandonBody>;
      return { ...owned(params, leaseToken), interrupted: interrupted ?? false };
    },
    reply: ({ buried }) => json(buried ? `{"status":"dlq"}` : `{"status":"requeued"}`),
  }),
  nackTask: byHand({
    operation: nackTask,
    input: ({ params, body }) => {
      const { delaySeconds, reason, stack, leaseToken, holdSeconds, used } = body as KeptOf<
        typeof NackBody
      >;
      const id = owned(params, leaseToken);
      const lane = { holdMs: (holdSeconds ?? 0) * 1000, used };
      return { ...id, ...lane, delaySeconds: delaySeconds ?? 0, reason: reason ?? "", stack };
    },
    reply: ({ buried, delaySeconds }) =>
      json(`{"status":"${buried ? "dlq" : "requeued"}","delaySeconds":${delaySeconds}}`),
  }),
  submitResult: byHand({
    operation: submitResult,
    input: ({ params, headers, body }) =>
      submitInput(params["id"] ?? "", body as KeptOf<typeof ResultBody>, headers),
    reply: (result, codec) => ({
      ...json(submittedText(codec, result)),
      headers: result.bodyDiffered === undefined ? {} : { "Codeq-Body-Differed": "true" },
    }),
  }),
  submitResults: byHand({
    operation: submitResults,
    input: ({ body, headers }) => {
      const { results: items } = body as KeptOf<typeof ResultBatchBody>;
      return items.map((item) => submitInput(item.taskId ?? "", item, headers));
    },
    reply: (answers, codec, { body }) => {
      const { results: sent } = body as KeptOf<typeof ResultBatchBody>;
      const items = answers.map((answer, i) => {
        const id = `"taskId":${JSON.stringify(sent[i]?.taskId ?? "")}`;
        return answer.ok
          ? `{${id},"result":${submittedText(codec, answer.value)}}`
          : `{${id},${errorMembers(answer)}}`;
      });
      return json(`{"results":[${items.join(",")}]}`);
    },
  }),
};

function owned(
  params: HttpRequest["params"],
  leaseToken: number | undefined,
): { id: TaskId; leaseToken: number | undefined } {
  return { id: params["id"] as TaskId, leaseToken };
}

/** A priority outside of the range is set to its nearest end, which the producer may not expect. */
function priorityNote(
  { priority: asked = 0 }: KeptOf<typeof CreateBody>,
  priority: number,
): Readonly<Record<string, string>> {
  return isPriority(asked) ? {} : { "Codeq-Priority-Set": `${priority}` };
}

function isPriority(asked = 0): boolean {
  return asked >= 0 && asked <= limits.priorityMax;
}

const none: readonly string[] = [];

function createInput(item: KeptOf<typeof NewTask>, { headers }: HttpRequest): CreateTaskInput {
  return {
    command: item.command ?? "",
    payload: item.payload ?? "null",
    priority: item.priority ?? 0,
    webhook: item.webhook ?? "",
    maxAttempts: item.maxAttempts ?? 0,
    idempotencyKey: item.idempotencyKey ?? "",
    idempotencyMode: headerText(headers["codeq-idempotency-mode"]),
    unique: item.unique,
    batchId: item.batchId ?? "",
    after: item.after ?? none,
    lane: item.lane ?? "",
    cost: item.cost ?? 0,
    runAt: item.runAt ?? "",
    delaySeconds: item.delaySeconds ?? 0,
    timeoutSeconds: item.timeoutSeconds ?? 0,
    ttlSeconds: item.ttlSeconds ?? 0,
    tags: item.tags ?? none,
    traceParent: headerText(headers["traceparent"]),
    traceState: headerText(headers["tracestate"]),
  };
}

function headerText(header: string | string[] | undefined): string {
  return typeof header === "string" ? header : "";
}

function submitInput(
  id: string,
  item: KeptOf<typeof NewResult>,
  headers: HttpRequest["headers"],
): SubmitResultInput {
  return {
    host: headerText(headers["host"]),
    id: id as TaskId,
    leaseToken: item.leaseToken,
    workerId: item.workerId ?? "",
    status: item.status ?? "",
    resultJson: item.result,
    error: item.error ?? "",
    stack: item.stack,
    used: item.used,
    artifacts: (item.artifacts ?? []).map(({ name, url, contentBase64, contentType }) => ({
      name: name ?? "",
      url: url ?? "",
      contentBase64: contentBase64 ?? "",
      contentType: contentType ?? "",
    })),
  };
}

/** The stored result, and whether it existed before this submit. */
function submittedText(
  codec: JsonCodec,
  { repeated, bodyDiffered, ...result }: SubmittedResult,
): string {
  const text = codec.result(result);
  if (repeated === undefined) return text;
  const differed = bodyDiffered === undefined ? "" : `,"bodyDiffered":true`;
  return `${text.slice(0, -1)},"repeated":true${differed}}`;
}

function results<T>(answers: readonly Answer<T>[], show: (value: T, at: number) => string): string {
  const items = answers.map((answer, at) =>
    answer.ok ? show(answer.value, at) : `{${errorMembers(answer)}}`,
  );
  return `{"results":[${items.join(",")}]}`;
}

/** An item has no headers, so its code stands beside the text. */
function errorMembers({ code, text, details }: Refusal): string {
  return JSON.stringify({ error: text, code, ...details }).slice(1, -1);
}
