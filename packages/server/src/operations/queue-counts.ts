/** How many tasks the caller's tenant has where. Answered from counters, never by counting. */
import { limits } from "@codeq/protocol";
import { type Counts, noCounts } from "../store/counts.ts";
import { type Operation, refusal } from "./operation.ts";

export interface QueueCounts {
  /** The queue's name: the command in lower case. */
  readonly queue: string;
  readonly counts: Counts;
}

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
    const queues = [...server.broker.queues.ofTenant(tenantId)];
    const counted = queues.map(({ name, counts }) => ({ queue: name, counts }));
    return { ok: true, value: { tenantId, queues: counted } };
  },
};

export const getQueue: Operation<{ readonly command: string }, Counts> = {
  name: "get_queue",
  access: "admin",
  scope: undefined,
  audit: { of: "other tenants", target: ({ command }) => command },
  run: async (server, call, { command }) => {
    if (command.trim() === "") return refusal("invalid_argument", "command is required");
    if (!limits.commandPattern.test(command)) return { ok: true, value: noCounts() };
    return { ok: true, value: server.broker.counts(call.identity.tenantId, command) };
  },
};
