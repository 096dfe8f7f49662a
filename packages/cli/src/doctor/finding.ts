/** One check of `doctor`: whether it passed, and what to do if not. */
import type { Config } from "@codeq/server/config";
import type { Call } from "../call.ts";

export type Verdict = "ok" | "warn" | "fail";

export interface Finding {
  readonly check: string;
  readonly verdict: Verdict;
  readonly found: string;
  /** Only when it is not ok. */
  readonly advice?: string;
}

/** What the checks look at. */
export interface Patient {
  readonly call: Call;
  readonly config: Config;
}

export function ok(check: string, found: string): Finding {
  return { check, verdict: "ok", found };
}

export function warn(check: string, found: string, advice: string): Finding {
  return { check, verdict: "warn", found, advice };
}

export function fail(check: string, found: string, advice: string): Finding {
  return { check, verdict: "fail", found, advice };
}
