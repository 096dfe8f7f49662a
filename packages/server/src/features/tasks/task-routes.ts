/** Routes for producers and workers. */
import { limits } from "@codeq/protocol";
import type { TaskId } from "@codeq/queue";
import {
  AbandonBody,
  CancelBody,
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
} from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import { numberField, textField } from "../../edge/http/query.ts";
import { redirected } from "../../edge/http/redirects.ts";
import { type HttpRequest, json, route } from "../../edge/http/route.ts";
import type { Answer, Refusal } from "../../edge/operation.ts";
import { explainTask } from "../explain/explain-task.ts";
import { cancelTask } from "../task-admin/act-on-task.ts";
import { abandonTask } from "./abandon-task.ts";
import { claimTasks } from "./claim-tasks.ts";
import { type CreateTaskInput, createTask, createTasks } from "./create-task.ts";
import { extendLease } from "./extend-lease.ts";
import { getResult } from "./get-result.ts";
import { getTask } from "./get-task.ts";
import { nackTask } from "./nack-task.ts";
import { type SubmitResultInput, submitResult, submitResults } from "./submit-result.ts";

const base = "/v1/codeq/tasks";
const params = { id: "The id of the task." };
/** Of verbs on a task that somebody works on. */
const ofOwners = ["task_unknown", "not_owner", "not_in_progress"] as const;

export const taskRoutes = [
  route({
    method: "POST",
    path: base,
    redirects: true,
    operation: createTask,
    name: "createTask",
    summary: "Create a task",
    replies: {
      ...redirected,
      202: {
        about: "The task, or the one that was created before with the same idempotency key.",
        schema: "Task",
        headers: { "Idempotent-Replayed": "`true` when the task had been created before." },
      },
    },
    refusals: [
      "priority_not_allowed",
      "invalid_argument",
      "invalid_command",
      "event_type_not_allowed",
      "idempotency_key_reused",
      "payload_too_large",
    ],
    body: CreateBody,
    input: (request) => {
      const item = request.body as BodyOf<typeof CreateBody>;
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
    operation: createTasks,
    name: "createTasks",
    summary: "Create several tasks",
    replies: { 200: { about: "A task or a refusal for each, in order.", schema: "CreatedTasks" } },
    refusals: ["priority_not_allowed", "invalid_argument"],
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
    redirects: true,
    operation: claimTasks,
    name: "claimTask",
    summary: "Claim the next task",
    about: "An empty object claims a task of any command that the token allows.",
    replies: {
      ...redirected,
      200: { about: "The task, leased to the caller.", schema: "Task" },
      204: { about: "No task is ready." },
    },
    refusals: ["invalid_argument", "invalid_command", "event_type_not_allowed"],
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
    operation: claimTasks,
    name: "claimTasks",
    summary: "Claim several tasks",
    replies: {
      200: { about: "The tasks, leased to the caller.", schema: "ClaimedTasks" },
      204: { about: "No task is ready." },
    },
    refusals: ["invalid_argument", "invalid_command", "event_type_not_allowed"],
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
    redirects: true,
    operation: extendLease,
    name: "extendLease",
    summary: "Extend the lease of a task",
    params,
    replies: {
      ...redirected,
      200: { about: "The lease is extended.", schema: "Extended" },
    },
    refusals: ["invalid_argument", ...ofOwners],
    body: HeartbeatBody,
    input: ({ params, body }) => {
      const beat = body as BodyOf<typeof HeartbeatBody>;
      const { extendSeconds = 0, leaseToken, progress, logs = [] } = beat;
      const said = progress && { percent: progress.percent ?? 0, text: progress.text ?? "" };
      return {
        ok: true,
        value: { ...owned(params, leaseToken), extendSeconds, progress: said, logs },
      };
    },
    reply: ({ isCancelled }) => json(isCancelled ? `{"ok":true,"cancelled":true}` : `{"ok":true}`),
  }),
  route({
    method: "POST",
    path: `${base}/:id/cancel`,
    operation: cancelTask,
    name: "cancelTask",
    summary: "Cancel a task",
    about:
      "A waiting task ends as FAILED with CANCELLED. The worker of a running task is notified, and loses " +
      "the task after the grace period.",
    params,
    replies: { 200: { about: "The task as it is now.", schema: "ActedOnTask" } },
    refusals: ["invalid_argument", "not_found", "has_ended", "event_type_not_allowed"],
    body: CancelBody,
    bodyOptional: true,
    input: ({ params, body }) => {
      const { graceSeconds } = (body ?? {}) as BodyOf<typeof CancelBody>;
      return { ok: true, value: { id: params["id"] ?? "", graceSeconds } };
    },
    reply: (task, codec) => json(`{"task":${codec.listedTask(task, task.payload)}}`),
  }),
  route({
    method: "POST",
    path: `${base}/:id/abandon`,
    redirects: true,
    operation: abandonTask,
    name: "abandonTask",
    summary: "Abandon a task",
    params,
    replies: {
      ...redirected,
      200: { about: "Where the task is now.", schema: "Abandoned" },
    },
    refusals: ofOwners,
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
    redirects: true,
    operation: nackTask,
    name: "nackTask",
    summary: "Report a failed attempt",
    params,
    replies: {
      ...redirected,
      200: { about: "Where the task is now.", schema: "Nacked" },
    },
    refusals: ["invalid_argument", ...ofOwners],
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
    redirects: true,
    operation: submitResult,
    name: "submitResult",
    summary: "Submit the result of a task",
    params,
    replies: {
      ...redirected,
      200: {
        about: "The result as it is stored.",
        schema: "SubmittedResult",
        headers: { "Codeq-Body-Differed": "`true` when the stored result says something else." },
      },
    },
    refusals: [
      "invalid_argument",
      "task_not_found",
      "not_owner",
      "not_in_progress",
      "artifact_too_large",
      "artifacts_unavailable",
    ],
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
    operation: submitResults,
    name: "submitResults",
    summary: "Submit several results",
    replies: {
      200: { about: "A result or a refusal for each, in order.", schema: "SubmittedResults" },
    },
    refusals: ["invalid_argument"],
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
    operation: getTask,
    name: "getTask",
    summary: "Get a task",
    about:
      "In a cluster the leader of the task's shard answers. With `consistency=local` the node that is asked answers " +
      "by itself if it knows the task, which may be a moment behind.",
    params,
    query: {
      consistency: textField("`local` to have the node answer that is asked; default: the leader."),
    },
    replies: {
      200: {
        about: "The task.",
        schema: "TaskWithHistory",
        headers: {
          "Codeq-Applied-Index":
            "With `consistency=local`: how many records of the shard the node had applied. It grows with every change.",
        },
      },
    },
    refusals: ["not_found", "invalid_argument"],
    input: ({ params, query }) => {
      const consistency = String(query["consistency"] ?? "");
      return { ok: true, value: { id: params["id"] as TaskId, consistency } };
    },
    reply: ({ task, payload, appliedIndex }, codec) => ({
      ...json(codec.taskWithHistory(task, payload)),
      ...(appliedIndex === undefined
        ? {}
        : { headers: { "Codeq-Applied-Index": String(appliedIndex) } }),
    }),
  }),
  route({
    method: "GET",
    path: `${base}/:id/explain`,
    operation: explainTask,
    name: "explainTask",
    summary: "Explain why a task is where it is",
    about:
      "The rule that holds the task, what is ahead of it in its queue, and about when it begins.",
    params,
    replies: { 200: { about: "The explanation.", schema: "TaskExplanation" } },
    refusals: ["not_found"],
    input: ({ params }) => ({ ok: true, value: { id: params["id"] as TaskId } }),
    reply: (explanation, codec) => json(codec.taskExplanation(explanation)),
  }),
  route({
    method: "GET",
    path: `${base}/:id/result`,
    operation: getResult,
    name: "getResult",
    summary: "Get the result of a task",
    params,
    query: {
      waitSeconds: numberField(
        `Seconds to wait for the result; values above ${limits.resultWaitSecondsMax} mean ${limits.resultWaitSecondsMax}.`,
      ),
    },
    replies: { 200: { about: "The result and its task.", schema: "TaskWithResult" } },
    refusals: ["task_not_found", "result_not_found"],
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
      json(`{"result":${codec.result(result)},"task":${codec.taskWithHistory(task, payload)}}`),
  }),
] as const;

function owned(
  params: HttpRequest["params"],
  leaseToken: number | undefined,
): { id: TaskId; leaseToken: number | undefined } {
  return { id: params["id"] as TaskId, leaseToken };
}

const noTags: readonly string[] = [];

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
    timeoutSeconds: item.timeoutSeconds ?? 0,
    ttlSeconds: item.ttlSeconds ?? 0,
    tags: item.tags ?? noTags,
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
    artifacts: (item.artifacts ?? []).map(({ name, url, contentBase64, contentType }) => ({
      name: name ?? "",
      url: url ?? "",
      contentBase64: contentBase64 ?? "",
      contentType: contentType ?? "",
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
