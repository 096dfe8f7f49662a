/**
 * Reports what happens to one task of the caller's tenant: its current state first, then every change until
 * it has ended.
 */
import { api } from "@codeq/protocol/api";
import type { Result, TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../../core/broker/verbs.ts";
import { bindInput } from "../../edge/bind.ts";
import { type Answer, refusal } from "../../edge/operation.ts";
import type { FeedEvent } from "../../telemetry/feed.ts";
import { OpenFeed, refusalOfFeed } from "./watch-events.ts";

export interface WatchedTask extends ClaimedTask {
  readonly feed: OpenFeed;
  /** The result of the task, once it has ended; undefined when it is gone. */
  readonly result: () => Promise<Result | undefined>;
}

export const watchTask = bindInput(api.events.watchTask, {
  showsPayloads: true,
  run: async (server, call, asked): Promise<Answer<WatchedTask>> => {
    const id = asked.id as TaskId;
    const wish = { wants: (event: FeedEvent) => event.taskId === id };
    const refused = refusalOfFeed(server, call, wish);
    if (refused !== undefined) return refused;
    // Opened first: whatever happens after the look is heard.
    const feed = new OpenFeed(server, call, wish);
    const { tenantId } = call.identity;
    const result = (): Promise<Result | undefined> => server.broker.result(tenantId, id);
    try {
      const found = await server.broker.get(tenantId, id);
      if (found !== undefined) return { ok: true, value: { ...found, feed, result } };
    } catch (error) {
      feed.close();
      throw error;
    }
    feed.close();
    return refusal("not_found");
  },
});
