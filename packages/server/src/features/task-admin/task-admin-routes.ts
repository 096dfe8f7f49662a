/** Routes with which administrators find and change tasks. */

import type { Triage } from "../../core/records/triage-record.ts";
import {
  CancelBody,
  DeadLettersBody,
  EditTaskBody,
  ReplayBody,
  TriageBody,
} from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { pageIn } from "../../edge/http/page-query.ts";
import { pageFields, type QueryField, textField } from "../../edge/http/query.ts";
import { type HttpRequest, json, route } from "../../edge/http/route.ts";
import type { Answer } from "../../edge/operation.ts";
import { type FilterInput, filterNames, taskPlaces } from "../../edge/task-filter-input.ts";
import { explainAnyTask } from "../explain/explain-task.ts";
import { listFailureGroups, type TriagedGroup } from "../failures/list-failure-groups.ts";
import { triageFailures } from "../failures/triage-failures.ts";
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

const filterFields: Readonly<Record<(typeof filterNames)[number], QueryField>> = {
  command: textField("Only tasks of this command."),
  place: textField(`Where they are: ${taskPlaces.join(", ")}.`, { enum: [...taskPlaces] }),
  priority: textField("Only tasks of this priority, 0 to 9."),
  worker: textField("Only tasks that this worker holds, or held last."),
  createdAfter: textField("RFC 3339 time: only tasks created at or after this time."),
  createdBefore: textField("RFC 3339 time: only tasks created before this time."),
  endedAfter: textField("RFC 3339 time: only tasks that ended at or after this time."),
  endedBefore: textField("RFC 3339 time: only tasks that ended before this time."),
  error: textField("Only tasks whose error contains this text."),
  group: textField("Of this failure group, by its id."),
  idempotencyKey: textField("Only the task with this idempotency key."),
  payload: textField("Only tasks with this value in the payload, such as `customer.id:42`."),
  tag: textField("Only tasks with this tag, or with all of several tags separated by commas."),
  id: textField("Only tasks whose id begins or ends with these characters, at least four."),
};
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
    path: "/v1/codeq/admin/failure-groups",
    operation: listFailureGroups,
    name: "listFailureGroups",
    summary: "Group failures by what their errors have in common",
    about:
      "Dead letters and failed tasks, by their errors without numbers, ids, quoted text and paths. The work for an " +
      "answer is bounded: with `next` there are more tasks to look at, and counts of the same group add up.",
    query: {
      ...filterFields,
      after: textField("`next` of the answer before; empty for the first."),
    },
    refusals: ["payloads_hidden"],
    replies: { 200: { about: "The largest group first.", schema: "FailureGroups" } },
    input: ({ query }) => ({
      ok: true,
      value: { filter: filterIn((name) => query[name]), after: String(query["after"] ?? "") },
    }),
    reply: ({ groups, scanned, next }, codec) =>
      json(
        JSON.stringify({ groups: groups.map((group) => groupFields(group, codec)), scanned, next }),
      ),
  }),
  route({
    method: "PUT",
    path: "/v1/codeq/admin/failure-groups/:id/triage",
    operation: triageFailures,
    name: "triageFailureGroup",
    summary: "Resolve, ignore or snooze a failure group",
    about:
      "Changes no task. A group that fails again after it was resolved has the state `returned`; a snoozed group is " +
      "open again when its time is over.",
    params: { id: "The id of the failure group." },
    refusals: ["invalid_argument"],
    replies: { 200: { about: "The group as it was decided.", schema: "TriagedGroup" } },
    body: TriageBody,
    input: ({ params, body }) => {
      const { state, snoozeSeconds, reason } = body as BodyOf<typeof TriageBody>;
      const group = params["id"] ?? "";
      return { ok: true, value: { group, state, snoozeSeconds, reason: reason ?? "" } };
    },
    reply: ({ group, triage }, codec) => {
      const fields = triage === undefined ? {} : { triage: triageFields(triage, codec) };
      return json(JSON.stringify({ id: group, state: triage?.state ?? "open", ...fields }));
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

function triageFields(triage: Triage, codec: JsonCodec): object {
  const { by, atMs, untilMs, reason } = triage;
  return {
    by,
    at: codec.instant(atMs),
    ...(untilMs === 0 ? {} : { until: codec.instant(untilMs) }),
    ...(reason === "" ? {} : { reason }),
  };
}

function groupFields(group: TriagedGroup, codec: JsonCodec): object {
  const { fingerprint, text, dead, failed, firstMs, lastMs, queues, trend, example } = group;
  const { state, triage } = group;
  const commands = Object.entries(queues).map(([command, count]) => ({ command, count }));
  return {
    id: fingerprint,
    text,
    count: dead + failed,
    dlq: dead,
    failed,
    firstSeen: codec.instant(firstMs),
    lastSeen: codec.instant(lastMs),
    commands: commands.sort((one, other) => other.count - one.count),
    example: { taskId: example.id, error: example.error },
    trend,
    state,
    ...(triage === undefined ? {} : { triage: triageFields(triage, codec) }),
  };
}

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
