/**
 * Deletes finished tasks of the caller's tenant before their retention ends. Only terminal tasks have
 * a retention, so whatever the cut-off, work that is waiting or running is never touched.
 */
import { limits } from "@codeq/protocol";
import type { Task } from "@codeq/queue";
import type { Position } from "../store/store.ts";
import { type Operation, refusal, type Server } from "./operation.ts";
import { parseInstant } from "./parse-instant.ts";

export interface CleanUpInput {
  /** 0 or less for the default. */
  readonly limit: number;
  /** RFC 3339, or empty for now. */
  readonly before: string;
}

export interface CleanedUp {
  readonly beforeMs: number;
  readonly deleted: number;
}

const pieceEntries = 500;

export const cleanUp: Operation<CleanUpInput, CleanedUp> = {
  name: "clean_up",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "cleanup" },
  audit: {
    of: "all",
    target: ({ before }) => before,
    detail: ({ deleted }) => `deleted ${deleted} tasks`,
  },
  run: async (server, call, input) => {
    const beforeMs = input.before === "" ? server.clock.nowMs() : parseInstant(input.before);
    if (beforeMs === undefined)
      return refusal("invalid_argument", "invalid 'before' (use RFC3339)");
    if (input.limit > limits.cleanupLimitMax) {
      const max = limits.cleanupLimitMax;
      return refusal("invalid_argument", `invalid 'limit' (must be <= ${max})`);
    }
    const limit = input.limit <= 0 ? limits.cleanupLimitDefault : input.limit;
    const deleted = await deleteBefore(server, {
      tenantId: call.identity.tenantId,
      beforeMs,
      limit,
    });
    return { ok: true, value: { beforeMs, deleted } };
  },
};

interface Wanted {
  readonly tenantId: string;
  readonly beforeMs: number;
  readonly limit: number;
}

async function deleteBefore({ broker, artifacts }: Server, wanted: Wanted): Promise<number> {
  const { tenantId, beforeMs, limit } = wanted;
  let after: Position | undefined;
  let deleted = 0;
  while (deleted < limit) {
    const expired = await broker.store.expiredWithOwners(after, beforeMs, pieceEntries);
    const tasks = expired
      .filter((each) => each.tenantId === tenantId)
      .map(({ id }) => broker.store.task(id))
      .filter((task) => task?.tenantId === tenantId)
      .slice(0, limit - deleted) as Task[];
    await artifacts.removeOf(tasks.map(({ id }) => id));
    if (tasks.length > 0) await broker.delete(tasks);
    deleted += tasks.length;
    after = expired.at(-1);
    if (after === undefined || expired.length < pieceEntries) break;
  }
  return deleted;
}
