/** Routes for operators, about all tenants. */
import { textField } from "../../edge/http/query.ts";
import { json, route } from "../../edge/http/route.ts";
import { listTenants } from "./list-tenants.ts";

export const adminRoutes = [
  route({
    method: "GET",
    path: "/v1/codeq/admin/tenants",
    operation: listTenants,
    name: "listTenants",
    summary: "List tenants that have tasks",
    query: { after: textField("The last name of the previous page; empty for the first page.") },
    replies: { 200: { about: "Names in order.", schema: "Tenants" } },
    input: ({ query }) => ({ ok: true, value: { after: String(query["after"] ?? "") } }),
    reply: ({ tenants, hasMore, isPartial }) =>
      json(JSON.stringify({ tenants, hasMore, ...(isPartial ? { isPartial } : {}) })),
  }),
] as const;
