/**
 * Lists the tenants that have tasks waiting, in progress or as dead letters, so that an operator knows where
 * to act. Page by page, ordered by name.
 */
import { limits } from "@codeq/protocol";
import type { TenantId } from "@codeq/queue";
import type { Operation } from "../../edge/operation.ts";

export interface ListTenantsInput {
  /** The last name of the previous page; empty for the first page. */
  readonly after: string;
}

export interface TenantList {
  readonly tenants: readonly TenantId[];
  readonly hasMore: boolean;
  /** A shard is down, and tenants that have tasks there only are missing. */
  readonly isPartial: boolean;
}

export const listTenants: Operation<ListTenantsInput, TenantList> = {
  name: "list_tenants",
  access: "operator",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async (server, _call, { after }) => {
    const { queue } = server;
    const names = (await queue.tenants()).filter((name) => name > after).sort();
    const tenants = names.slice(0, limits.tenantsPerPage);
    const hasMore = names.length > tenants.length;
    return { ok: true, value: { tenants, hasMore, isPartial: queue.isPartial } };
  },
};
