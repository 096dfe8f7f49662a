/** A failing endpoint of a tenant, as text: since when, and whether it is disabled. */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { endpointKey } from "../store/keys.ts";
import { parseRecord } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

export interface FailingEndpoint {
  /** Scheme, host, port and path. */
  readonly url: string;
  /** When the first webhook after the last successful one was given up. */
  readonly sinceMs: number;
  /** Undefined while webhooks are still sent to it. */
  readonly disabledMs: number | undefined;
  /** The error of the last try. */
  readonly why: string;
}

export function writeOfEndpoint(
  tenantId: TenantId,
  { url, sinceMs, disabledMs, why }: FailingEndpoint,
): RecordWrite {
  return put(endpointKey(tenantId, url), JSON.stringify([sinceMs, disabledMs ?? 0, why]));
}

export function removalOfEndpoint(tenantId: TenantId, url: string): RecordWrite {
  return remove(endpointKey(tenantId, url));
}

/** Undefined when the text is not a valid record. */
export function decodeEndpoint(url: string, text: string): FailingEndpoint | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== 3) return undefined;
  const [sinceMs, disabledMs, why] = row as unknown[];
  const isWhole = [sinceMs, disabledMs].every(Number.isSafeInteger) && typeof why === "string";
  if (!isWhole) return undefined;
  return { url, sinceMs: sinceMs as number, disabledMs: (disabledMs as number) || undefined, why };
}
