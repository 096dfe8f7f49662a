/**
 * Routes of administrators. Everything is of one tenant: the caller's own, or the one that an
 * operator names in the query.
 */
import { operations } from "../../operations/index.ts";
import { CleanUpBody } from "./bodies.ts";
import type { BodyOf } from "./json-body.ts";
import { queueBuckets, queueStats } from "./json-codec.ts";
import { textField } from "./query.ts";
import { json, route } from "./route.ts";

const base = "/v1/codeq/admin";

export const adminRoutes = [
  route({
    method: "GET",
    path: `${base}/queues`,
    operation: operations.listQueues,
    name: "listQueues",
    summary: "Count the tasks of all queues",
    replies: { 200: { about: "Counts by bucket.", schema: "QueueBuckets" } },
    input: () => ({ ok: true, value: undefined }),
    reply: ({ tenantId, queues }) => json(queueBuckets(tenantId, queues)),
  }),
  route({
    method: "GET",
    path: `${base}/queues/:command`,
    operation: operations.getQueue,
    name: "getQueue",
    summary: "Count the tasks of a queue",
    params: { command: "The command of the queue; letter case is ignored." },
    replies: {
      200: { about: "Counts by place; zeros for a queue without tasks.", schema: "QueueCounts" },
    },
    input: ({ params }) => ({ ok: true, value: { command: params["command"] ?? "" } }),
    reply: (counts, _codec, { params }) => json(queueStats(params["command"] ?? "", counts)),
  }),
  route({
    method: "POST",
    path: `${base}/tasks/cleanup`,
    operation: operations.cleanUp,
    name: "cleanUp",
    summary: "Delete finished tasks before their retention ends",
    replies: { 200: { about: "How many were deleted.", schema: "CleanedUp" } },
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
    name: "listTenants",
    summary: "List tenants that have tasks",
    query: { after: textField("The last name of the page before; empty for the first page.") },
    replies: { 200: { about: "Names in order.", schema: "Tenants" } },
    input: ({ query }) => ({ ok: true, value: { after: String(query["after"] ?? "") } }),
    reply: ({ tenants, hasMore }) => json(JSON.stringify({ tenants, hasMore })),
  }),
] as const;

/** Keeps the caller's offset. */
function withoutFraction(instant: string): string {
  return instant.replace(/\.\d+/, "");
}
