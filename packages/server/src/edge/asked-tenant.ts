/** The tenant that a call of an administrator is about; operators may ask for all tenants at once. */
import type { TenantId } from "@codeq/queue";
import { everyTenant } from "./access/identity.ts";
import type { Call } from "./operation.ts";

/** Undefined for all of them. */
export function askedTenant({ identity }: Pick<Call, "identity">): TenantId | undefined {
  return identity.tenantId === everyTenant ? undefined : identity.tenantId;
}
