/** Routes of producers and workers. */
import { limits } from "@codeq/protocol";
import type { TaskId } from "@codeq/queue";
import type { CreateTaskInput } from "../../operations/create-task.ts";
import { operations } from "../../operations/index.ts";
import { type Answer, type Refusal, refusal } from "../../operations/operation.ts";
import type { SubmitResultInput } from "../../operations/submit-result.ts";
import {
  AbandonBody,
  ClaimBatchBody,
  ClaimBody,
  CreateBatchBody,
  CreateBody,
  type CreateItem,
  HeartbeatBody,
  NackBody,
  ResultBatchBody,
  ResultBody,
  type ResultItem,
} from "./bodies.ts";
import type { BodyOf } from "./json-body.ts";
import { type HttpRequest, json, route } from "./route.ts";

const base = "/v1/codeq/tasks";

export const taskRoutes = [
  route({
    method: "POST",
    path: base,
    operation: operations.createTask,
    body: CreateBody,
    input: (request) => {
      const item = request.body as BodyOf<typeof CreateBody>;
      // A payload of null is as good as none here; 0, false and "" are payloads.
      if (item.payload === undefined || item.payload === "null") return refusal("invalid_body");
      return { ok: true, value: createInput(item, request) };
    },
    reply: ({ task, payload, replayed }, codec) => ({
      status: 202,
      body: codec.task(task, payload),
      headers: replayed ? { "Idempotent-Replayed": "true" } : {},
    }),
  }),
  route({
    method: "POST",
    path: `${base}/batch`,
    operation: operations.createTasks,
    body: CreateBatchBody,
    input: (request) => {
      const { tasks } = request.body as BodyOf<typeof CreateBatchBody>;
      return { ok: true, value: tasks.map((item) => createInput(item, request)) };
    },
    reply: (answers, codec) =>
      json(
        results(answers, ({ task, payload, replayed }) => {
          const mark = replayed ? `,"idempotentReplayed":true` : "";
          return `{"task":${codec.task(task, payload)}${mark}}`;
        }),
      ),
  }),
  route({
    method: "POST",
    path: `${base}/claim`,
    operation: operations.claimTasks,
    body: ClaimBody,
    waits: ({ waitSeconds }) => waitSeconds > 0,
    input: ({ body }) => {
      const { commands, leaseSeconds, waitSeconds } = body as BodyOf<typeof ClaimBody>;
      return {
        ok: true,
        value: {
          commands: commands ?? [],
          leaseSeconds: leaseSeconds ?? 0,
          waitSeconds: Math.min(waitSeconds ?? 0, limits.claimWaitSecondsMax),
          count: 1,
        },
      };
    },
    reply: ([claimed], codec) =>
      claimed === undefined
        ? { status: 204, body: undefined }
        : json(codec.task(claimed.task, claimed.payload)),
  }),
  route({
    method: "POST",
    path: `${base}/claim/batch`,
    operation: operations.claimTasks,
    body: ClaimBatchBody,
    input: ({ body }) => {
      const { commands, leaseSeconds, count } = body as BodyOf<typeof ClaimBatchBody>;
      const value = {
        commands: commands ?? [],
        leaseSeconds: leaseSeconds ?? 0,
        waitSeconds: 0,
        count,
      };
      return { ok: true, value };
    },
    reply: (claimed, codec) =>
      claimed.length === 0
        ? { status: 204, body: undefined }
        : json(
            `{"tasks":[${claimed.map((each) => codec.task(each.task, each.payload)).join(",")}]}`,
          ),
  }),
  route({
    method: "POST",
    path: `${base}/:id/heartbeat`,
    operation: operations.extendLease,
    body: HeartbeatBody,
    input: ({ params, body }) => {
      const { extendSeconds, leaseToken } = body as BodyOf<typeof HeartbeatBody>;
      return {
        ok: true,
        value: { ...owned(params, leaseToken), extendSeconds: extendSeconds ?? 0 },
      };
    },
    reply: () => json(`{"ok":true}`),
  }),
  route({
    method: "POST",
    path: `${base}/:id/abandon`,
    operation: operations.abandonTask,
    body: AbandonBody,
    bodyOptional: true,
    input: ({ params, body }) => {
      const { interrupted, leaseToken } = (body ?? {}) as BodyOf<typeof AbandonBody>;
      return {
        ok: true,
        value: { ...owned(params, leaseToken), interrupted: interrupted ?? false },
      };
    },
    reply: ({ buried }) => json(buried ? `{"status":"dlq"}` : `{"status":"requeued"}`),
  }),
  route({
    method: "POST",
    path: `${base}/:id/nack`,
    operation: operations.nackTask,
    body: NackBody,
    input: ({ params, body }) => {
      const { delaySeconds, reason, leaseToken } = body as BodyOf<typeof NackBody>;
      const id = owned(params, leaseToken);
      return { ok: true, value: { ...id, delaySeconds: delaySeconds ?? 0, reason: reason ?? "" } };
    },
    reply: ({ buried, delaySeconds }) =>
      json(`{"status":"${buried ? "dlq" : "requeued"}","delaySeconds":${delaySeconds}}`),
  }),
  route({
    method: "POST",
    path: `${base}/:id/result`,
    operation: operations.submitResult,
    body: ResultBody,
    invalidBody: "invalid request body",
    input: ({ params, body }) => {
      const item = body as BodyOf<typeof ResultBody>;
      return { ok: true, value: submitInput(params["id"] ?? "", item) };
    },
    reply: (result, codec) => ({
      ...json(codec.submitted(result)),
      headers: result.bodyDiffered === undefined ? {} : { "Codeq-Body-Differed": "true" },
    }),
  }),
  route({
    method: "POST",
    path: `${base}/batch/results`,
    operation: operations.submitResults,
    body: ResultBatchBody,
    input: ({ body }) => {
      const { results: items } = body as BodyOf<typeof ResultBatchBody>;
      return { ok: true, value: items.map((item) => submitInput(item.taskId ?? "", item)) };
    },
    reply: (answers, codec, { body }) => {
      const ids = (body as BodyOf<typeof ResultBatchBody>).results.map(
        ({ taskId }) => taskId ?? "",
      );
      const items = answers.map((answer, i) => {
        const id = `"taskId":${JSON.stringify(ids[i] ?? "")}`;
        return answer.ok
          ? `{${id},"result":${codec.submitted(answer.value)}}`
          : `{${id},${errorMembers(answer)}}`;
      });
      return json(`{"results":[${items.join(",")}]}`);
    },
  }),
  route({
    method: "GET",
    path: `${base}/:id`,
    operation: operations.getTask,
    input: ({ params }) => ({ ok: true, value: { id: params["id"] as TaskId } }),
    reply: ({ task, payload }, codec) => json(codec.task(task, payload)),
  }),
  route({
    method: "GET",
    path: `${base}/:id/result`,
    operation: operations.getResult,
    waits: ({ waitSeconds }) => waitSeconds > 0,
    input: ({ params, query }) => {
      const waitSeconds = Number(query["waitSeconds"] ?? 0);
      const value = {
        id: params["id"] as TaskId,
        waitSeconds: Number.isFinite(waitSeconds) ? waitSeconds : 0,
      };
      return { ok: true, value };
    },
    reply: ({ task, payload, result }, codec) =>
      json(`{"result":${codec.result(result)},"task":${codec.task(task, payload)}}`),
  }),
] as const;

function owned(
  params: HttpRequest["params"],
  leaseToken: number | undefined,
): { id: TaskId; leaseToken: number | undefined } {
  return { id: params["id"] as TaskId, leaseToken };
}

function createInput(item: BodyOf<typeof CreateItem>, { headers }: HttpRequest): CreateTaskInput {
  return {
    command: item.command ?? "",
    payload: item.payload ?? "null",
    priority: item.priority ?? 0,
    webhook: item.webhook ?? "",
    maxAttempts: item.maxAttempts ?? 0,
    idempotencyKey: item.idempotencyKey ?? "",
    runAt: item.runAt ?? "",
    delaySeconds: item.delaySeconds ?? 0,
    traceParent: headerText(headers["traceparent"]),
    traceState: headerText(headers["tracestate"]),
  };
}

function headerText(header: string | string[] | undefined): string {
  return typeof header === "string" ? header : "";
}

function submitInput(id: string, item: BodyOf<typeof ResultItem>): SubmitResultInput {
  return {
    id: id as TaskId,
    leaseToken: item.leaseToken,
    status: item.status ?? "",
    resultJson: item.result,
    error: item.error ?? "",
    artifacts: (item.artifacts ?? []).map(({ name, url, contentBase64 }) => ({
      name: name ?? "",
      url: url ?? "",
      contentBase64: contentBase64 ?? "",
    })),
  };
}

function results<T>(answers: readonly Answer<T>[], show: (value: T) => string): string {
  const items = answers.map((answer) =>
    answer.ok ? show(answer.value) : `{${errorMembers(answer)}}`,
  );
  return `{"results":[${items.join(",")}]}`;
}

/** An item has no headers, so its code stands beside the text. */
function errorMembers({ code, text, details }: Refusal): string {
  return JSON.stringify({ error: text, code, ...details }).slice(1, -1);
}
