/** Why a task is where it is, and why a worker gets no tasks. */
import { endpoints } from "../../contract/endpoint.ts";
import {
  count,
  decimal,
  either,
  flag,
  instant,
  list,
  object,
  only,
  text,
} from "../../contract/shape.ts";
import { paused } from "../queues/queues.ts";
import { taskPlaces } from "./task-filter.ts";

/** The first that applies, in the order in which a claim would meet them. */
const rule = text("What holds the task, for programs.", {
  oneOf: [
    "expired",
    "delayed",
    "held",
    "storage",
    "lease_quota",
    "paused",
    "topic_limit",
    "topic_rate",
    "lane_paused",
    "lane_limit",
    "lane_rate",
    "lane_held",
    "no_worker",
    "no_worker_for_command",
    "workers_busy",
    "next",
    "leased",
    "dead",
    "done",
    "failed",
    "cancelled",
  ],
});
const why = text("The same for people.");
const inProgress = count("", { as: "leased" });

export const TaskExplanation = object(
  {
    taskId: text(),
    command: text(),
    place: text("", { oneOf: taskPlaces }),
    rule,
    why,
    nextAt: instant("When its lane or its queue may be claimed from again.", { isOptional: true }),
    dueAt: instant("When a delayed task may be claimed.", { isOptional: true }),
    workerId: text("Who has it.", { isOptional: true }),
    since: instant("Since when the worker has it.", { isOptional: true }),
    leaseUntil: instant("Until when, unless the lease is extended.", { isOptional: true }),
    paused,
    ahead: object(
      {
        higher: count("Ready tasks of its queue with a higher priority."),
        older: count(
          "Those of its priority that come first: ready for longer or, where the queue has lanes, before its turn.",
        ),
        isAtLeast: flag("There are at least so many; no more were looked at."),
        isEstimate: only(
          true,
          "Several shards have tasks of the queue, and the order between them is unknown.",
          { isOptional: true },
        ),
      },
      { about: "What comes before a ready task in its queue.", isOptional: true },
    ),
    startsIn: object(
      { fromSeconds: count(), toSeconds: count() },
      {
        about: "About when it begins, by how fast attempts of its queue ended lately.",
        isOptional: true,
      },
    ),
    waitsFor: list(
      object({ taskId: text(), command: text() }),
      "Up to three of the tasks that a callback, or a task with `after`, waits for. Of a large batch, the first members " +
        "are looked at.",
      { isOptional: true },
    ),
    queue: object({
      ready: count(),
      delayed: count(),
      inProgress,
      endedPerMinute: decimal("Attempts of its queue that ended in the last minute.", {
        isOptional: true,
      }),
    }),
    workers: object({
      asking: count("Workers with a claim for its queue that waits."),
      connected: count("Workers with a stream, or with a claim for any queue."),
    }),
  },
  { name: "TaskExplanation", about: "Why a task is where it is." },
);

export const WorkerExplanation = object(
  {
    workerId: text(),
    rule: text("Why it gets nothing, for programs.", {
      oneOf: ["not_asking", "lease_quota", "no_work", "paused", "topic_limit", "work_is_near"],
    }),
    why,
    leases: count(),
    claims: count("Its claims that wait."),
    streams: count(),
    connectedAt: instant("", { isOptional: true }),
    asksFor: either(
      [list(text()), only("all")],
      "The queues that it asks for; left out when it asks for nothing.",
      { isOptional: true },
    ),
    queues: list(
      object({
        command: text("", { as: "queue" }),
        ready: count(),
        delayed: count(),
        rule: text("", { oneOf: ["empty", "delayed", "paused", "topic_limit", "ready"] }),
        inProgress,
        paused,
      }),
      "What these queues have; the first hundred.",
    ),
  },
  { name: "WorkerExplanation", about: "Why a worker gets no tasks." },
);

const task = { 200: { about: "The explanation.", shape: TaskExplanation } } as const;

export const explain = endpoints({
  explainTask: {
    key: "GET /tasks/:id/explain",
    access: "either",
    summary: "Explain why a task is where it is",
    about:
      "The rule that holds the task, what is ahead of it in its queue, and about when it begins.",
    params: { id: text("The id of the task.") },
    refusals: ["not_found"],
    replies: task,
  },
  explainAnyTask: {
    key: "GET /admin/tasks/:id/explain",
    access: "viewer",
    summary: "Explain why a task of any producer is where it is",
    params: {
      id: text("The id of the task, or the beginning or end of it if that is unique."),
    },
    refusals: ["not_found", "ambiguous_id"],
    replies: task,
  },
  explainWorker: {
    key: "GET /admin/workers/:workerId/explain",
    access: "viewer",
    summary: "Explain why a worker gets no tasks",
    params: { workerId: text("The id of the worker, as the list of workers shows it.") },
    refusals: ["worker_not_found"],
    replies: { 200: { about: "The explanation.", shape: WorkerExplanation } },
  },
});
