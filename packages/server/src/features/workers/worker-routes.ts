/** The route that explains why a worker gets no tasks. */

import { json, route } from "../../edge/http/route.ts";
import { explainWorker } from "../explain/explain-worker.ts";

export const workerRoutes = [
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
