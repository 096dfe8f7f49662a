/**
 * Routes of administrators. Everything is of one tenant: the caller's own, or the one that an
 * operator names in the query.
 */
import { operations } from "../../operations/index.ts";
import { CleanUpBody } from "./bodies.ts";
import type { BodyOf } from "./json-body.ts";
import { queueBuckets, queueStats } from "./json-codec.ts";
import { json, route } from "./route.ts";

const base = "/v1/codeq/admin";

export const adminRoutes = [
  route({
    method: "GET",
    path: `${base}/queues`,
    operation: operations.listQueues,
    input: () => ({ ok: true, value: undefined }),
    reply: ({ tenantId, queues }) => json(queueBuckets(tenantId, queues)),
  }),
  route({
    method: "GET",
    path: `${base}/queues/:command`,
    operation: operations.getQueue,
    input: ({ params }) => ({ ok: true, value: { command: params["command"] ?? "" } }),
    reply: (counts, _codec, { params }) => json(queueStats(params["command"] ?? "", counts)),
  }),
  route({
    method: "POST",
    path: `${base}/tasks/cleanup`,
    operation: operations.cleanUp,
    body: CleanUpBody,
    bodyOptional: true,
    input: ({ body }) => {
      const { limit, before } = (body ?? {}) as BodyOf<typeof CleanUpBody>;
      return { ok: true, value: { limit: limit ?? 0, before: before ?? "" } };
    },
    reply: ({ beforeMs, deleted }, codec, { body }) => {
      const { limit, before } = (body ?? {}) as BodyOf<typeof CleanUpBody>;
      const shown =
        before === undefined || before === "" ? codec.seconds(beforeMs) : withoutFraction(before);
      return json(JSON.stringify({ before: shown, deleted, limit: limit ?? 0 }));
    },
  }),
  route({
    method: "GET",
    path: `${base}/tenants`,
    operation: operations.listTenants,
    input: ({ query }) => ({ ok: true, value: { after: String(query["after"] ?? "") } }),
    reply: ({ tenants, hasMore }) => json(JSON.stringify({ tenants, hasMore })),
  }),
] as const;

/** Keeps the caller's offset. */
function withoutFraction(instant: string): string {
  return instant.replace(/\.\d+/, "");
}
