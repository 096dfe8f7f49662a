/** Routes that list workers and explain why a worker gets no tasks. */

import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { pageIn } from "../../edge/http/page-query.ts";
import { pageFields } from "../../edge/http/query.ts";
import { json, route } from "../../edge/http/route.ts";
import { explainWorker } from "../explain/explain-worker.ts";
import { listWorkers, type WorkingWorker } from "./list-workers.ts";

export const workerRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/admin/workers",
    operation: listWorkers,
    name: "listWorkers",
    summary: "List workers",
    query: pageFields,
    replies: {
      200: { about: "Workers that hold leases or have a stream open.", schema: "Workers" },
    },
    input: (request) => ({ ok: true, value: pageIn(request) }),
    reply: ({ workers, next, isPartial }, codec) => {
      const shown = workers.map((each) => workerFields(each, codec));
      return json(JSON.stringify({ workers: shown, next, ...(isPartial ? { isPartial } : {}) }));
    },
  }),
  route({
    method: "GET",
    path: "/v1/codeq/admin/workers/:workerId/explain",
    operation: explainWorker,
    name: "explainWorker",
    summary: "Explain why a worker gets no tasks",
    params: { workerId: "The id of the worker, as the list of workers shows it." },
    replies: { 200: { about: "The explanation.", schema: "WorkerExplanation" } },
    refusals: ["not_found"],
    input: ({ params }) => ({ ok: true, value: { workerId: params["workerId"] ?? "" } }),
    reply: (explanation, codec) => json(codec.workerExplanation(explanation)),
  }),
] as const;

function workerFields(worker: WorkingWorker, codec: JsonCodec): object {
  const { workerId, leases, connected, oldestMs, seenMs } = worker;
  const at = (ms: number | undefined): string | undefined =>
    ms === undefined ? undefined : codec.instant(ms);
  return {
    workerId,
    leases,
    oldestLeaseAt: at(oldestMs),
    lastSeenAt: at(seenMs),
    streams: connected?.streams ?? 0,
    connectedAt: at(connected?.sinceMs),
    client: connected?.client,
  };
}
