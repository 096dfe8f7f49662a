/**
 * What an administrator decides about a failure group: it is resolved, ignored, or snoozed for a while. The
 * decision changes no task. A group that fails again after it was resolved has returned, and is marked so.
 */
import { limits } from "@codeq/protocol";
import { type Triage, type TriageState, triageStates } from "../../core/records/triage-record.ts";
import type { FailureGroup } from "../../core/search/failure-groups.ts";
import { type Operation, refusal } from "../../edge/operation.ts";

export type GroupState = "open" | "returned" | TriageState;

export interface TriageInput {
  readonly group: string;
  /** One of the states, or `open`. */
  readonly state: string;
  /** For `snoozed`: how long. */
  readonly snoozeSeconds: number | undefined;
  /** Empty when there is none. */
  readonly reason: string;
}

export interface Triaged {
  readonly group: string;
  /** Undefined for a group that is open again. */
  readonly triage: Triage | undefined;
}

const groupPattern = /^[0-9a-f]{4,64}$/;

export const triageFailures: Operation<TriageInput, Triaged> = {
  name: "triage_failures",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: {
    of: "all",
    target: ({ group }) => group,
    detail: ({ triage }) => (triage === undefined ? "open" : `${triage.state} ${triage.reason}`),
  },
  run: async ({ queue, clock }, call, { group, state, snoozeSeconds, reason }) => {
    if (!groupPattern.test(group)) {
      return refusal("invalid_argument", "invalid group (use the id of a failure group)");
    }
    const { tenantId, subject } = call.identity;
    if (state === "open") {
      await queue.setTriage(tenantId, group, undefined);
      return { ok: true, value: { group, triage: undefined } };
    }
    const known = triageStates.find((each) => each === state);
    if (known === undefined) {
      const names = ["open", ...triageStates].join(", ");
      return refusal("invalid_argument", `invalid 'state' (one of ${names})`);
    }
    if ((known === "snoozed") !== (snoozeSeconds !== undefined)) {
      return refusal("invalid_argument", "'snoozeSeconds' is required for snoozed, and only there");
    }
    const max = limits.snoozeSecondsMax;
    if (snoozeSeconds !== undefined && (snoozeSeconds < 1 || snoozeSeconds > max)) {
      return refusal("invalid_argument", `invalid 'snoozeSeconds' (1 to ${max})`);
    }
    if (reason.length > limits.reasonCharsMax) {
      return refusal("invalid_argument", `'reason' is longer than ${limits.reasonCharsMax}`);
    }
    const others = (await queue.triageOf(tenantId)).filter((each) => each.group !== group);
    // The oldest decision makes room.
    for (const each of oldest(others, others.length + 1 - limits.triagePerTenantMax)) {
      await queue.setTriage(tenantId, each.group, undefined);
    }
    const atMs = clock.nowMs();
    const untilMs = snoozeSeconds === undefined ? 0 : atMs + snoozeSeconds * 1000;
    const triage: Triage = { group, state: known, by: subject, atMs, untilMs, reason };
    await queue.setTriage(tenantId, group, triage);
    return { ok: true, value: { group, triage } };
  },
};

function oldest(all: readonly Triage[], count: number): readonly Triage[] {
  return count <= 0 ? [] : all.toSorted((one, other) => one.atMs - other.atMs).slice(0, count);
}

/** What the decision means for the group as it is now. */
export function stateOf(
  { lastMs }: Pick<FailureGroup, "lastMs">,
  triage: Triage | undefined,
  nowMs: number,
): GroupState {
  switch (triage?.state) {
    case undefined:
      return "open";
    case "resolved":
      return lastMs > triage.atMs ? "returned" : "resolved";
    case "ignored":
      return "ignored";
    case "snoozed":
      return triage.untilMs > nowMs ? "snoozed" : "open";
  }
}
