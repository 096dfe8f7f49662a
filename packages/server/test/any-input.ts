import type { TenantId } from "@codeq/queue";
import { InFlight, type Input } from "../src/edge/in-flight.ts";

/** The input of a caller without limits. */
export function anyInput(): Input {
  const all = Number.POSITIVE_INFINITY;
  return new InFlight({ bytesMax: all, tenantBytesMax: all }).open("acme" as TenantId, () => {});
}
