/** The size of a page of a list. */
import { limits } from "@codeq/protocol";
import { type Answer, refusal } from "./operation.ts";

export interface PageInput {
  /** Undefined for the default. */
  readonly limit: number | undefined;
  /** `next` of the page before, or empty. */
  readonly after: string;
}

export function pageLimitOf({ limit = limits.pageLimitDefault }: PageInput): Answer<number> {
  const max = limits.pageLimitMax;
  return Number.isSafeInteger(limit) && limit > 0 && limit <= max
    ? { ok: true, value: limit }
    : refusal("invalid_argument", `invalid 'limit' (1 to ${max})`);
}
