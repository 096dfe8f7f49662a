/** Event feeds: what happens to tasks, as server-sent events. The answers are streams, which are written by hand. */
import { endpoints, errorCode, invalidArgument } from "../../contract/endpoint.ts";
import {
  count,
  decimal,
  instant,
  list,
  mapOf,
  object,
  only,
  text,
  whole,
} from "../../contract/shape.ts";
import { limits } from "../../limits.ts";

const taskEventNames = [
  "created",
  "promoted",
  "replayed",
  "edited",
  "claimed",
  "completed",
  "failed",
  "retried",
  "released",
  "lease_expired",
  "progress",
  "log",
] as const;
/** A task that a schedule creates has the event `created`, with `scheduleId`. */
const scheduleEventNames = ["schedule_skipped", "schedule_paused", "schedule_resumed"] as const;
const eventNames = [...taskEventNames, ...scheduleEventNames] as const;

const optional = { isOptional: true } as const;

/** It never contains the payload or the result. */
export const TaskEvent = object(
  {
    event: text("", { oneOf: taskEventNames }),
    time: instant("When, as in RFC 3339.", { as: "atMs" }),
    tenantId: text(),
    taskId: text(),
    command: text(),
    priority: count(),
    attempt: count("Which attempt it is about, from 1 on: the current, the last or the next one."),
    tags: list(text(), "The tags of the task; left out when it has none.", optional),
    workerId: text("", optional),
    how: text("How a task failed, or why it is ready again without a counted attempt.", {
      ...optional,
      oneOf: [
        "cancelled",
        "expired",
        "permanent",
        "dead_letter",
        "abandoned",
        "interrupted",
        "unsent",
      ],
    }),
    delaySeconds: decimal("How long until the task is ready again.", optional),
    reason: text("Of `failed` and `retried`, and of `edited` by a later request.", optional),
    percent: whole("Of `progress`: how far the work has come, from 0 to 100.", optional),
    text: text("Of `progress`: what is being done.", optional),
    lines: list(text(), "Of `log`: what the worker wrote.", optional),
    batchId: text("The batch that the task is a member or the callback of.", optional),
    scheduleId: text("Of `created`: the schedule that created the task.", optional),
    scheduledFor: instant("Of `created`: the nominal instant of the schedule.", optional),
    uniqueKey: text("Of `created` and `edited`: the unique key of the task.", optional),
    waitsForKey: only(
      true,
      "Of `created` and `edited`: the task waits for the end of the task with its unique key.",
      optional,
    ),
  },
  { about: "Something that happened to a task." },
);

export const ScheduleEvent = object(
  {
    event: text("", { oneOf: scheduleEventNames }),
    time: instant("When, as in RFC 3339.", { as: "atMs" }),
    tenantId: text(),
    scheduleId: text(),
    command: text("The command of its tasks."),
    scheduledFor: instant("Of `schedule_skipped`: the first nominal instant.", optional),
    count: count("Of `schedule_skipped`: how many nominal instants.", optional),
    by: text("Of `schedule_paused`: who paused it.", optional),
    reason: text("Of `schedule_skipped` and `schedule_paused`.", optional),
  },
  { about: "Something that happened to a schedule." },
);

/** An event named `summary`: what happened within a second. */
export const EventSummary = object({
  event: text("", { oneOf: ["summary"] }),
  time: instant("", { as: "atMs" }),
  queues: mapOf(mapOf(count()), "How many events of each name there were, by queue."),
  others: count("Events of further queues.", optional),
});

/** Sent in place of events that the reader was too slow for. */
export const FeedGap = object({ event: only("missed"), count: count() });

/** The last event of a feed that the server ends. */
export const FeedEnd = object({ event: only("end"), code: errorCode, reason: text() });

const PublicToken = object(
  {
    token: text("The token; the server does not store it."),
    expiresAt: instant("When it expires.", { as: "expiresMs" }),
  },
  { name: "PublicToken" },
);

const type = "text/event-stream";

export const events = endpoints({
  watchEvents: {
    key: "GET /admin/events",
    access: "viewer",
    summary: "Watch the events of tasks and schedules",
    query: {
      command: text("Only events of this command.", { none: "" }),
      type: text(`Only these events, separated by commas: ${eventNames.join(", ")}.`, {
        as: "types",
        none: "",
        pattern: new RegExp(`^(${eventNames.join("|")})(,(${eventNames.join("|")}))*$`),
        rule: `one or more of ${eventNames.join(", ")}, separated by commas`,
      }),
      task: text("Only events of the task with this id.", { none: "" }),
      view: text(
        "`summary` for one `summary` event a second, or none when nothing happened, that counts events by " +
          "queue and name. With `task`, the events of this task are sent one by one as well. A comment line is sent " +
          "every 2 seconds, so that a reader notices a server that hangs.",
        { oneOf: ["summary"], none: "", rule: "summary, or leave it away" },
      ),
    },
    refusals: ["invalid_argument", "invalid_command", "too_many_feeds"],
    replies: { 200: { about: "Server-sent events, from now on.", type } },
  },
  watchTask: {
    key: "GET /tasks/:id/events",
    access: "either",
    summary: "Watch what happens to one task",
    about:
      "The first event, `task`, is the task as it is now, with its progress and its log. Then come its " +
      "events, `progress` and `log` among them, until it has ended. The last event, `result`, has the result of the task; a " +
      "result that is longer than 64 KiB is left out and marked with `resultOmitted`.",
    params: { id: text("The id of the task.") },
    isCrossOrigin: true,
    refusals: ["not_found", "too_many_feeds"],
    replies: { 200: { about: "Server-sent events until the task has ended.", type } },
  },
  createPublicToken: {
    key: "POST /tasks/:id/public-token",
    access: "either",
    summary: "Create a token with which a browser watches one task",
    about:
      "The token allows `GET /tasks/:id/events` of this task and nothing else, from pages of any site. Its events " +
      "have the progress, the log and the result of the task, but not the payload, the attempts and the names of workers. " +
      "It ends with the token of its caller.",
    params: { id: text("The id of the task.") },
    body: object(
      {
        seconds: whole("How long the token is valid.", {
          min: 1,
          max: limits.publicTokenSecondsMax,
          rule: `1 to ${limits.publicTokenSecondsMax}`,
          none: 3600,
        }),
      },
      { isClosed: true },
    ),
    bodyOptional: true,
    outOfBounds: invalidArgument,
    refusals: ["not_found", "invalid_argument"],
    replies: { 201: { about: "The token.", shape: PublicToken } },
  },
});
