/** The route of the event feed: server-sent events, from now on. */
import { operations } from "../../operations/index.ts";
import { taskEventNames } from "../../telemetry/feed.ts";
import { EventStream } from "./event-stream.ts";
import { textField } from "./query.ts";
import { route } from "./route.ts";

export const eventRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/admin/events",
    operation: operations.watchEvents,
    name: "watchEvents",
    summary: "Watch the events of tasks",
    query: {
      command: textField("Only events of this command."),
      type: textField(`Only these events, separated by commas: ${taskEventNames.join(", ")}.`),
    },
    replies: {
      200: { about: "Server-sent events, from now on.", type: "text/event-stream" },
    },
    refusals: ["invalid_command", "too_many_feeds"],
    waits: () => true,
    input: ({ query }) => {
      const text = (name: string): string => String(query[name] ?? "");
      return { ok: true, value: { command: text("command"), types: text("type") } };
    },
    reply: (feed, codec) => ({
      status: 200,
      body: new EventStream(feed, codec),
      // Whatever stands in between must neither keep it nor hold it back.
      headers: { "cache-control": "no-store", "x-accel-buffering": "no" },
    }),
  }),
] as const;
