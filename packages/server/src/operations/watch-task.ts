/**
 * Reports what happens to one task of the caller's tenant: its current state first, then every change until
 * it has ended.
 */
import type { TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../broker/verbs.ts";
import type { TaskEvent } from "../telemetry/feed.ts";
import { type Operation, refusal } from "./operation.ts";
import { OpenFeed, refusalOfFeed } from "./watch-events.ts";

export interface WatchedTask extends ClaimedTask {
  readonly feed: OpenFeed;
}

export const watchTask: Operation<{ readonly id: TaskId }, WatchedTask> = {
  name: "watch_task",
  access: "either",
  scope: undefined,
  showsPayloads: true,
  run: async (server, call, { id }) => {
    const wish = { wants: (event: TaskEvent) => event.taskId === id };
    const refused = refusalOfFeed(server, call, wish);
    if (refused !== undefined) return refused;
    // Opened first: whatever happens after the look is heard.
    const feed = new OpenFeed(server, call, wish);
    try {
      const found = await server.queue.get(call.identity.tenantId, id);
      if (found !== undefined) return { ok: true, value: { ...found, feed } };
    } catch (error) {
      feed.close();
      throw error;
    }
    feed.close();
    return refusal("not_found");
  },
};
