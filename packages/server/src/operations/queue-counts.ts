/** How many tasks the caller's tenant has where. Answered from counters, never by counting. */
import { limits } from "@codeq/protocol";
import { queueOf } from "@codeq/queue";
import type { QueueCounts } from "../broker/queue.ts";
import { type Counts, noCounts } from "../store/counts.ts";
import type { QueuePause } from "../store/pause-record.ts";
import { type Operation, refusal } from "./operation.ts";

export interface TenantQueues {
  readonly tenantId: string;
  readonly queues: readonly QueueCounts[];
}

export const listQueues: Operation<undefined, TenantQueues> = {
  name: "list_queues",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async (server, call) => {
    const { tenantId } = call.identity;
    return { ok: true, value: { tenantId, queues: await server.queue.queuesOf(tenantId) } };
  },
};

export interface QueueDetails {
  readonly counts: Counts;
  /** Undefined when it is not paused. */
  readonly pause: QueuePause | undefined;
}

export const getQueue: Operation<{ readonly command: string }, QueueDetails> = {
  name: "get_queue",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants", target: ({ command }) => command },
  run: async (server, call, { command }) => {
    if (command.trim() === "") return refusal("invalid_argument", "command is required");
    if (!limits.commandPattern.test(command)) {
      return { ok: true, value: { counts: noCounts(), pause: undefined } };
    }
    const { tenantId } = call.identity;
    const counts = await server.queue.counts(tenantId, command);
    const pauses = await server.queue.pausesOf(tenantId);
    const pause = pauses.find(({ queue }) => queue === queueOf(command));
    return { ok: true, value: { counts, pause } };
  },
};
