/** The route of the event feed: server-sent events, from now on. */
import { operations } from "../../operations/index.ts";
import { EventStream } from "./event-stream.ts";
import { route } from "./route.ts";

export const eventRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/admin/events",
    operation: operations.watchEvents,
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
