/**
 * Deletes finished tasks of the caller's tenant before their retention ends. Only finished tasks have a
 * retention, so waiting and running tasks are never deleted, whatever the cut-off.
 */
import { limits } from "@codeq/protocol";
import { type Operation, refusal } from "../../edge/operation.ts";
import { parseInstant } from "../../edge/parse-instant.ts";

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
    const deleted = await server.queue.cleanUp({
      tenantId: call.identity.tenantId,
      beforeMs,
      limit,
    });
    return { ok: true, value: { beforeMs, deleted } };
  },
};
