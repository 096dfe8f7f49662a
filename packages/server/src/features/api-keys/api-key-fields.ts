/** An API key as its owners see it: everything except its hash. */
import type { KnownApiKey } from "../../edge/access/api-keys.ts";

export function apiKeyFields(
  { key, lastUsedMs }: KnownApiKey,
  instant: (ms: number) => string,
): Record<string, unknown> {
  const { id, name, tenantId, role, scopes, eventTypes, createdMs, createdBy, expiresMs } = key;
  return {
    id,
    name,
    tenantId,
    role,
    scopes,
    eventTypes,
    createdAt: instant(createdMs),
    createdBy,
    expiresAt: expiresMs === undefined ? undefined : instant(expiresMs),
    lastUsedAt: lastUsedMs === undefined ? undefined : instant(lastUsedMs),
  };
}
