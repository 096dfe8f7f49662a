/**
 * Failures of the caller's tenant, grouped by the fingerprint of their errors, and what an administrator decides about
 * a group: it is resolved, ignored, or snoozed for a while. The decision changes no task. A group that fails again after
 * it was resolved has returned, and is marked so.
 */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import type { Triage, TriageState } from "../../core/records/triage-record.ts";
import { type FailureGroup, isCursor } from "../../core/search/failure-groups.ts";
import { bind } from "../../edge/bind.ts";
import { problemOfSearch } from "../../edge/hidden-payloads.ts";
import { type Answer, refusal } from "../../edge/operation.ts";
import { readFilter } from "../../edge/task-filter-input.ts";

type GroupState = "open" | "returned" | TriageState;
export interface TriagedGroup {
  readonly id: string;
  readonly state: GroupState;
  /** Undefined for a group that is open again. */
  readonly triage?: Triage;
}

export const listFailureGroups = bind(api.failures.listFailureGroups, {
  rate: { scope: "admin", operation: "tasks" },
  run: async ({ broker, clock }, call, { after, ...input }) => {
    const hidden = problemOfSearch(call, input);
    if (hidden !== undefined) return hidden;
    const filter = readFilter(input);
    if (!filter.ok) return filter;
    const { place } = filter.value;
    if (place !== undefined && !["failure", "dead", "failed"].includes(place)) {
      return refusal("invalid_argument", "invalid 'place': failures are dead or failed");
    }
    if (after !== "" && !isCursor(after)) {
      return refusal("invalid_argument", "invalid 'after': it must be 'next' of an answer");
    }
    const { tenantId } = call.identity;
    const nowMs = clock.nowMs();
    const wanted = { tenantId, filter: filter.value, after, trendEndMs: nowMs };
    const found = await broker.failureGroups(wanted);
    if (found === undefined) return refusal("overloaded");
    const triaged = new Map((await broker.triageOf(tenantId)).map((each) => [each.group, each]));
    const groups = found.groups.map(({ fingerprint, dead, queues, example, ...group }) => {
      const triage = triaged.get(fingerprint);
      const commands = Object.entries(queues).map(([command, count]) => ({ command, count }));
      return {
        ...group,
        id: fingerprint,
        count: dead + group.failed,
        dlq: dead,
        commands: commands.sort((one, other) => other.count - one.count),
        example: { taskId: example.id, error: example.error },
        state: stateOf(group, triage, nowMs),
        triage,
      };
    });
    const { scanned, next } = found;
    groups.sort((one, other) => other.count - one.count);
    return { ok: true, value: { groups, scanned, next } };
  },
});

export const triageFailureGroup = bind(api.failures.triageFailureGroup, {
  run: async ({ broker, clock }, call, wanted): Promise<Answer<TriagedGroup>> => {
    const { id: group, state, snoozeSeconds, reason } = wanted;
    const { tenantId, subject } = call.identity;
    if (state === "open") {
      await broker.setTriage(tenantId, group, undefined);
      return { ok: true, value: { id: group, state } };
    }
    if ((state === "snoozed") !== (snoozeSeconds !== undefined)) {
      return refusal("invalid_argument", "'snoozeSeconds' is required for snoozed, and only there");
    }
    const others = (await broker.triageOf(tenantId)).filter((each) => each.group !== group);
    // The oldest decision makes room.
    for (const each of oldest(others, others.length + 1 - limits.triagePerTenantMax)) {
      await broker.setTriage(tenantId, each.group, undefined);
    }
    const atMs = clock.nowMs();
    const untilMs = snoozeSeconds === undefined ? 0 : atMs + snoozeSeconds * 1000;
    const triage: Triage = { group, state, by: subject, atMs, untilMs, reason };
    await broker.setTriage(tenantId, group, triage);
    return { ok: true, value: { id: group, state, triage } };
  },
  audit: {
    detail: ({ state, triage }) => (triage === undefined ? "open" : `${state} ${triage.reason}`),
  },
});

function oldest(all: readonly Triage[], count: number): readonly Triage[] {
  return count <= 0 ? [] : all.toSorted((one, other) => one.atMs - other.atMs).slice(0, count);
}

/** What the decision means for the group as it is now. */
function stateOf(
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
