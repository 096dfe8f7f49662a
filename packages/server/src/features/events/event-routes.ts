/** Event feeds as answers that stay open. */
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import type { HttpReply } from "../../edge/http/route.ts";
import { EventStream } from "./event-stream.ts";
import { type OpenFeed, watchEvents } from "./watch-events.ts";
import { createPublicToken, type WatchedTask, watchTask } from "./watch-task.ts";

const waits = (): boolean => true;

export const eventRoutes = {
  createPublicToken,
  watchEvents: {
    operation: watchEvents,
    waits,
    reply: (feed: OpenFeed, codec: JsonCodec) => feedReply(new EventStream(feed, codec)),
  },
  watchTask: {
    operation: watchTask,
    waits,
    reply: ({ feed, task, payload, result, isPublic }: WatchedTask, codec: JsonCodec) =>
      feedReply(
        new EventStream(feed, codec, {
          first: isPublic ? codec.publicTask(task) : codec.taskWithHistory(task, payload),
          ...(isPublic ? { show: (event) => codec.publicEvent(event) } : {}),
          isForBrowser: isPublic,
          isOver: task.place.in === "done" || task.place.in === "dead",
          isLast: ({ event }) => event === "completed" || event === "failed",
          result: async () => {
            const found = await result();
            return found && codec.resultEvent(found);
          },
        }),
      ),
  },
};

/** Proxies must neither store a feed nor hold it back. */
function feedReply(body: EventStream): HttpReply {
  return {
    status: 200,
    body,
    headers: { "cache-control": "no-store", "x-accel-buffering": "no" },
  };
}
