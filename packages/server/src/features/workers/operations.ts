/**
 * Lists the workers of the caller's tenant: those that hold leases and those with an open stream, page by
 * page, ordered by id. Collected from memory on request.
 */
import { api, type KeptOf, type Worker } from "@codeq/protocol/api";
import type { WorkerId } from "@codeq/queue";
import { bind } from "../../edge/bind.ts";

export const listWorkers = bind(api.workers.listWorkers, {
  run: async ({ broker, workers }, call, { after, limit }) => {
    const { tenantId } = call.identity;
    const found = new Map<WorkerId, KeptOf<typeof Worker>>();
    for (const [workerId, connected] of workers.of(tenantId)) {
      found.set(workerId, { workerId, leases: 0, ...connected });
    }
    const { workers: holders, isPartial } = await broker.leasesOf(tenantId);
    for (const each of holders) {
      found.set(each.workerId, { streams: 0, ...found.get(each.workerId), ...each });
    }
    const behind = [...found.values()].filter(({ workerId }) => workerId > after);
    const sorted = behind.sort((one, other) => (one.workerId < other.workerId ? -1 : 1));
    const page = sorted.slice(0, limit);
    const next = sorted.length > page.length ? page.at(-1)?.workerId : undefined;
    return { ok: true, value: { workers: page, next, isPartial } };
  },
});
