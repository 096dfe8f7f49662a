/** Tasks and results as JSON: written by the codec, which hot routes use as well, and not from their shapes. */
import type { Task, TaskId } from "@codeq/queue";
import type { FoundTasks } from "../../core/broker/broker.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { type HttpReply, type HttpRequest, json } from "../../edge/http/route.ts";
import {
  type FoundTask,
  type GetResultInput,
  getResult,
  getTask,
  getTaskByKey,
  type TaskWithResult,
} from "../tasks/read-task.ts";
import { cancelAnyTask, cancelTask, deleteTask, editTask, replayTask } from "./act-on-task.ts";
import { type InspectedTask, inspectTask, listTasks } from "./find-tasks.ts";

export const answeredTasks = {
  getTask: { operation: getTask, reply: taskReply },
  getTaskByKey: { operation: getTaskByKey, reply: taskReply },
  getResult: {
    operation: getResult,
    waits: ({ waitSeconds }: GetResultInput) => waitSeconds > 0,
    input: resultInput,
    reply: resultReply,
  },
  cancelTask: { operation: cancelTask, reply: actedReply },
};

export const answeredToAdmins = {
  listTasks: { operation: listTasks, reply: foundReply },
  inspectTask: { operation: inspectTask, reply: inspectedReply },
  replayTask: { operation: replayTask, reply: actedReply },
  cancelAnyTask: { operation: cancelAnyTask, reply: actedReply },
  editTask: { operation: editTask, reply: actedReply },
  deleteTask,
};

function taskReply({ task, payload, appliedIndex }: FoundTask, codec: JsonCodec): HttpReply {
  const headers = { "Codeq-Applied-Index": String(appliedIndex) };
  return {
    ...json(codec.taskWithHistory(task, payload)),
    ...(appliedIndex === undefined ? {} : { headers }),
  };
}

/** From lenient callers, what is no number is taken for no wait. */
function resultInput({ params, query }: HttpRequest): GetResultInput {
  const waitSeconds = Number(query["waitSeconds"] ?? 0);
  const id = params["id"] as TaskId;
  return { id, waitSeconds: Number.isFinite(waitSeconds) ? waitSeconds : 0 };
}

function resultReply({ task, payload, result }: TaskWithResult, codec: JsonCodec): HttpReply {
  return json(`{"result":${codec.result(result)},"task":${codec.taskWithHistory(task, payload)}}`);
}

function foundReply({ tasks, scanned, next, total }: FoundTasks, codec: JsonCodec): HttpReply {
  const shown = tasks.map((task) => codec.listedTask(task, task.payload));
  const rest = JSON.stringify({ scanned, next, total });
  return json(`{"tasks":[${shown.join(",")}],${rest.slice(1)}`);
}

function inspectedReply({ task, payload, result }: InspectedTask, codec: JsonCodec): HttpReply {
  const ended = result === undefined ? "" : `,"result":${codec.result(result)}`;
  return json(`{"task":${codec.inspectedTask(task, payload)}${ended}}`);
}

function actedReply(task: Task, codec: JsonCodec): HttpReply {
  return json(`{"task":${codec.listedTask(task, task.payload)}}`);
}
