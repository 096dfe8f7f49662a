/**
 * The tenant of a token. It comes from the claims and never from the request. Every tenant claim that is
 * present must be well-formed, and all of them must agree; a bad claim is never ignored in favour of
 * another. Without a tenant claim, the subject is the tenant.
 */
import { limits } from "@codeq/protocol";
import type { TenantId } from "@codeq/queue";

const claimNames = ["tid", "tenantId", "tenant_id", "organizationId", "organization_id"];

export function isTenantId(text: string): text is TenantId {
  return limits.tenantPattern.test(text);
}

/** What an operator names where it means all of them; no tenant is called so. */
export const everyTenant = "*" as TenantId;

export function tenantOf(
  subject: string,
  claims: Readonly<Record<string, unknown>>,
): TenantId | undefined {
  const present = claimNames.filter((name) => claims[name] !== undefined);
  const values = present.length === 0 ? [subject] : present.map((name) => claims[name]);
  const first = values[0];
  if (typeof first !== "string" || !isTenantId(first.trim())) return undefined;
  const tenant = first.trim();
  const agreed = values.every((value) => typeof value === "string" && value.trim() === tenant);
  return agreed ? (tenant as TenantId) : undefined;
}
