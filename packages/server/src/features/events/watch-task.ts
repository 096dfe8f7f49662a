/**
 * Reports what happens to one task of the caller's tenant: its current state first, then every change until
 * it has ended.
 */
import { api } from "@codeq/protocol/api";
import type { Result, TaskId } from "@codeq/queue";
import type { ClaimedTask } from "../../core/broker/verbs.ts";
import type { PublicTokens } from "../../edge/access/public-tokens.ts";
import { bind, bindInput } from "../../edge/bind.ts";
import { type Answer, refusal } from "../../edge/operation.ts";
import type { FeedEvent } from "../../telemetry/feed.ts";
import { OpenFeed, refusalOfFeed } from "./watch-events.ts";

export interface WatchedTask extends ClaimedTask {
  readonly feed: OpenFeed;
  /** The result of the task, once it has ended; undefined when it is gone. */
  readonly result: () => Promise<Result | undefined>;
  /** The reader is a browser, which is not shown everything. */
  readonly isPublic: boolean;
}

/** For a task that the caller may read. */
export const createPublicToken = bind(api.events.createPublicToken, {
  showsPayloads: true,
  run: async (server, { identity }, { id, seconds }): Promise<Answer<GivenToken>> => {
    const found = await server.broker.get(identity.tenantId, id as TaskId);
    if (found === undefined) return refusal("not_found");
    const given = { id: found.task.id, forMs: seconds * 1000 };
    return { ok: true, value: server.publicTokens.give(identity, given) };
  },
});

type GivenToken = ReturnType<PublicTokens["give"]>;

export const watchTask = bindInput(api.events.watchTask, {
  showsPayloads: true,
  takesPublicTokens: true,
  run: async (server, call, asked): Promise<Answer<WatchedTask>> => {
    const id = asked.id as TaskId;
    const { onlyTask } = call.identity;
    if (onlyTask !== undefined && onlyTask !== id) return refusal("not_found");
    const wish = { wants: (event: FeedEvent) => event.taskId === id, publicTask: onlyTask };
    const refused = refusalOfFeed(server, call, wish);
    if (refused !== undefined) return refused;
    // Opened first: whatever happens after the look is heard.
    const feed = new OpenFeed(server, call, wish);
    const { tenantId } = call.identity;
    const result = (): Promise<Result | undefined> => server.broker.result(tenantId, id);
    try {
      const found = await server.broker.get(tenantId, id);
      if (found !== undefined)
        return { ok: true, value: { ...found, feed, result, isPublic: onlyTask !== undefined } };
    } catch (error) {
      feed.close();
      throw error;
    }
    feed.close();
    return refusal("not_found");
  },
});
