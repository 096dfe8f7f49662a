/** Routes with which administrators find and change tasks. */

import { taskFilter } from "@codeq/protocol/api";
import { CancelBody, DeadLettersBody, EditTaskBody, ReplayBody } from "../../edge/http/bodies.ts";
import { queryFields } from "../../edge/http/contract-route.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import { pageIn } from "../../edge/http/page-query.ts";
import { pageFields, textField } from "../../edge/http/query.ts";
import { type HttpRequest, json, route } from "../../edge/http/route.ts";
import type { Answer } from "../../edge/operation.ts";
import { type FilterInput, filterNames } from "../../edge/task-filter-input.ts";
import { explainAnyTask } from "../explain/explain-task.ts";
import {
  type DeadLettersInput,
  deleteDeadLetters,
  replayDeadLetters,
} from "./act-on-dead-letters.ts";
import { cancelAnyTask, deleteTask, replayTask } from "./act-on-task.ts";
import { editTask } from "./edit-task.ts";
import { inspectTask } from "./inspect-task.ts";
import { type ListTasksInput, listTasks } from "./list-tasks.ts";

const base = "/v1/codeq/admin/tasks";
const deadLetters = "/v1/codeq/admin/dead-letters";

const filterFields = queryFields(taskFilter);
const idParam = { id: "The id of the task, or the beginning or end of it if that is unique." };
const ofOneTask = ["not_found", "ambiguous_id"] as const;
const ofDeadLetter = [...ofOneTask, "not_dead"] as const;

export const taskAdminRoutes = [
  route({
    method: "GET",
    path: base,
    operation: listTasks,
    name: "listTasks",
    summary: "Find tasks",
    about:
      "The work per page is limited: a page can have fewer tasks than requested, or none, and still have " +
      "a `next`.",
    query: {
      ...filterFields,
      ...pageFields,
      order: textField("`newest` or `oldest` first.", { enum: ["newest", "oldest"] }),
    },
    refusals: ["payloads_hidden"],
    replies: { 200: { about: "A page of tasks.", schema: "FoundTasks" } },
    input: listInput,
    reply: ({ tasks, scanned, next, total }, codec) => {
      const shown = tasks.map((task) => codec.listedTask(task, task.payload));
      const rest = JSON.stringify({ scanned, next, total });
      return json(`{"tasks":[${shown.join(",")}],${rest.slice(1)}`);
    },
  }),
  route({
    method: "GET",
    path: `${base}/:id`,
    operation: inspectTask,
    name: "inspectTask",
    summary: "Show a task with its payload and result",
    params: idParam,
    refusals: ofOneTask,
    replies: { 200: { about: "The task.", schema: "InspectedTask" } },
    input: idIn,
    reply: ({ task, payload, result }, codec) => {
      const ended = result === undefined ? "" : `,"result":${codec.result(result)}`;
      return json(`{"task":${codec.inspectedTask(task, payload)}${ended}}`);
    },
  }),
  route({
    method: "GET",
    path: `${base}/:id/explain`,
    operation: explainAnyTask,
    name: "explainAnyTask",
    summary: "Explain why a task of any producer is where it is",
    params: idParam,
    refusals: ofOneTask,
    replies: { 200: { about: "The explanation.", schema: "TaskExplanation" } },
    input: idIn,
    reply: (explanation, codec) => json(codec.taskExplanation(explanation)),
  }),
  route({
    method: "POST",
    path: `${base}/:id/replay`,
    operation: replayTask,
    name: "replayTask",
    summary: "Give a dead letter back to its queue, or make a new task of it",
    about:
      "Without a body the dead letter keeps its id and gets all its attempts again. With changes, a new task " +
      "is made of any task that has ended, and both name each other: `replayOf` and `replayedAs`.",
    params: idParam,
    refusals: [
      "invalid_argument",
      "invalid_command",
      "payload_too_large",
      ...ofDeadLetter,
      "not_ended",
      "priority_not_allowed",
      "quota_exceeded",
    ],
    replies: { 200: { about: "The task as it is now, or the new one.", schema: "ActedOnTask" } },
    body: ReplayBody,
    bodyOptional: true,
    input: ({ params, body }) => {
      const changes = (body ?? {}) as BodyOf<typeof ReplayBody>;
      return { ok: true, value: { id: params["id"] ?? "", changes } };
    },
    reply: (task, codec) => json(`{"task":${codec.listedTask(task, task.payload)}}`),
  }),
  route({
    method: "POST",
    path: `${base}/:id/cancel`,
    operation: cancelAnyTask,
    name: "cancelAnyTask",
    summary: "Cancel a task of any producer",
    params: idParam,
    refusals: ["invalid_argument", ...ofOneTask, "has_ended"],
    replies: { 200: { about: "The task as it is now.", schema: "ActedOnTask" } },
    body: CancelBody,
    bodyOptional: true,
    input: ({ params, body }) => {
      const { graceSeconds } = (body ?? {}) as BodyOf<typeof CancelBody>;
      return { ok: true, value: { id: params["id"] ?? "", graceSeconds } };
    },
    reply: (task, codec) => json(`{"task":${codec.listedTask(task, task.payload)}}`),
  }),
  route({
    method: "PATCH",
    path: `${base}/:id`,
    operation: editTask,
    name: "editTask",
    summary: "Edit a waiting task",
    about:
      "Moves the task to another queue, or changes its priority, payload or start time; `delaySeconds` of " +
      "0 makes the task ready now. The task keeps its id, its attempts and its idempotency key.",
    params: idParam,
    refusals: [
      "invalid_argument",
      "invalid_command",
      "payload_too_large",
      ...ofOneTask,
      "not_waiting",
      "priority_not_allowed",
    ],
    replies: { 200: { about: "The task as it is now.", schema: "ActedOnTask" } },
    body: EditTaskBody,
    input: ({ params, body }) => {
      const { command, priority, payload, runAt, delaySeconds } = body as BodyOf<
        typeof EditTaskBody
      >;
      const edit = { command, priority, payload, runAt, delaySeconds };
      return { ok: true, value: { id: params["id"] ?? "", ...edit } };
    },
    reply: (task, codec) => json(`{"task":${codec.listedTask(task, task.payload)}}`),
  }),
  route({
    method: "DELETE",
    path: `${base}/:id`,
    operation: deleteTask,
    name: "deleteTask",
    summary: "Delete a task that has ended",
    params: idParam,
    refusals: [...ofOneTask, "not_ended"],
    replies: { 204: { about: "It is gone." } },
    input: idIn,
    reply: () => ({ status: 204, body: undefined }),
  }),
  route({
    method: "POST",
    path: `${deadLetters}/replay`,
    operation: replayDeadLetters,
    name: "replayDeadLetters",
    summary: "Replay dead letters",
    refusals: ["payloads_hidden"],
    replies: { 200: { about: "What was done.", schema: "ReplayedDeadLetters" } },
    body: DeadLettersBody,
    input: ({ body }) => ({ ok: true, value: deadLettersInput(body) }),
    reply: ({ changed, ...rest }) => json(JSON.stringify({ replayed: changed, ...rest })),
  }),
  route({
    method: "POST",
    path: `${deadLetters}/delete`,
    operation: deleteDeadLetters,
    name: "deleteDeadLetters",
    summary: "Delete dead letters",
    refusals: ["payloads_hidden"],
    replies: { 200: { about: "What was done.", schema: "DeletedDeadLetters" } },
    body: DeadLettersBody,
    input: ({ body }) => ({ ok: true, value: deadLettersInput(body) }),
    reply: ({ changed, ...rest }) => json(JSON.stringify({ deleted: changed, ...rest })),
  }),
] as const;

function listInput(request: HttpRequest): Answer<ListTasksInput> {
  const { query } = request;
  const filter = filterIn((name) => query[name]);
  return { ok: true, value: { ...pageIn(request), filter, order: String(query["order"] ?? "") } };
}

function filterIn(read: (name: (typeof filterNames)[number]) => unknown): FilterInput {
  const given = filterNames.map((name) => [name, read(name)] as const);
  const texts = given.filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(texts.map(([name, value]) => [name, String(value)]));
}

function idIn({ params }: HttpRequest): Answer<{ readonly id: string }> {
  return { ok: true, value: { id: params["id"] ?? "" } };
}

function deadLettersInput(body: unknown): DeadLettersInput {
  const { ids, all, limit, dryRun, ...filter } = body as BodyOf<typeof DeadLettersBody>;
  return {
    ids: ids ?? [],
    isAll: all ?? false,
    limit: limit ?? 0,
    isDryRun: dryRun ?? false,
    filter: filterIn((name) => (name === "place" ? undefined : filter[name])),
  };
}
