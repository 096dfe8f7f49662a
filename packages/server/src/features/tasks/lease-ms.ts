/** The length of a lease: the default if none is given, otherwise as asked, within the limits. */
import { limits } from "@codeq/protocol";
import { type Answer, refusal, type Server } from "../../edge/operation.ts";

export function leaseMsOf(server: Server, seconds: number, field: string): Answer<number> {
  if (seconds <= 0) return { ok: true, value: server.config.defaultLeaseSeconds * 1000 };
  const max = limits.leaseSecondsMax;
  if (seconds > max) {
    return refusal("invalid_argument", `invalid '${field}' (must be <= ${max})`);
  }
  return { ok: true, value: seconds * 1000 };
}
