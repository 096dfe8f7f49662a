/** Routes for event feeds: server-sent events, from now on. */
import type { TaskId } from "@codeq/queue";
import { textField } from "../../edge/http/query.ts";
import { route } from "../../edge/http/route.ts";
import { taskEventNames } from "../../telemetry/feed.ts";
import { EventStream } from "./event-stream.ts";
import { watchEvents } from "./watch-events.ts";
import { watchTask } from "./watch-task.ts";

export const eventRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/admin/events",
    operation: watchEvents,
    name: "watchEvents",
    summary: "Watch the events of tasks",
    query: {
      command: textField("Only events of this command."),
      type: textField(`Only these events, separated by commas: ${taskEventNames.join(", ")}.`),
      task: textField("Only events of the task with this id."),
      view: textField(
        "`summary` for one `summary` event a second, or none when nothing happened, that counts events by " +
          "queue and name. With `task`, the events of this task are told one by one as well.",
        { enum: ["summary"] },
      ),
    },
    replies: {
      200: { about: "Server-sent events, from now on.", type: "text/event-stream" },
    },
    refusals: ["invalid_argument", "invalid_command", "too_many_feeds"],
    waits: () => true,
    input: ({ query }) => {
      const text = (name: string): string => String(query[name] ?? "");
      const which = { command: text("command"), types: text("type"), task: text("task") };
      return { ok: true, value: { ...which, view: text("view") } };
    },
    reply: (feed, codec) => ({
      status: 200,
      body: new EventStream(feed, codec),
      // Whatever stands in between must neither keep it nor hold it back.
      headers: { "cache-control": "no-store", "x-accel-buffering": "no" },
    }),
  }),
  route({
    method: "GET",
    path: "/v1/codeq/tasks/:id/events",
    operation: watchTask,
    name: "watchTask",
    summary: "Watch what happens to one task",
    about:
      "The first event, `task`, is the task as it is now, with its progress and its log. Then come its " +
      "events, `progress` and `log` among them, until it has ended. The last event, `result`, has the result of the task; a " +
      "result that is longer than 64 KiB is left out and marked with `resultOmitted`.",
    params: { id: "The id of the task." },
    replies: {
      200: { about: "Server-sent events until the task has ended.", type: "text/event-stream" },
    },
    refusals: ["not_found", "too_many_feeds"],
    waits: () => true,
    input: ({ params }) => ({ ok: true, value: { id: params["id"] as TaskId } }),
    reply: ({ feed, task, payload, result }, codec) => ({
      status: 200,
      body: new EventStream(feed, codec, {
        first: codec.taskWithHistory(task, payload),
        isOver: task.place.in === "done" || task.place.in === "dead",
        isLast: ({ event }) => event === "completed" || event === "failed",
        result: async () => {
          const found = await result();
          return found && codec.resultEvent(found);
        },
      }),
      headers: { "cache-control": "no-store", "x-accel-buffering": "no" },
    }),
  }),
] as const;
