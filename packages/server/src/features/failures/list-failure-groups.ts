/** Groups the failures of the caller's tenant by the fingerprint of their errors. */

import type { Triage } from "../../core/records/triage-record.ts";
import {
  type FailureGroup,
  type FailureGroups,
  isCursor,
} from "../../core/search/failure-groups.ts";
import { problemOfSearch } from "../../edge/hidden-payloads.ts";
import { type Operation, refusal } from "../../edge/operation.ts";
import { type FilterInput, readFilter } from "../../edge/task-filter-input.ts";
import { type GroupState, stateOf } from "./triage-failures.ts";

export interface FailureGroupsInput {
  /** `place` is dead or failed; both without. */
  readonly filter: FilterInput;
  /** `next` of the answer before; empty for the first. */
  readonly after: string;
}

export interface TriagedGroup extends FailureGroup {
  readonly state: GroupState;
  readonly triage: Triage | undefined;
}

export interface TriagedGroups extends FailureGroups {
  readonly groups: readonly TriagedGroup[];
}

export const listFailureGroups: Operation<FailureGroupsInput, TriagedGroups> = {
  name: "list_failure_groups",
  access: "viewer",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "other tenants" },
  run: async ({ queue, clock }, call, { filter: input, after }) => {
    const hidden = problemOfSearch(call, input);
    if (hidden !== undefined) return hidden;
    const filter = readFilter(input);
    if (!filter.ok) return filter;
    const { place } = filter.value;
    if (place !== undefined && place !== "dead" && place !== "failed") {
      return refusal("invalid_argument", "invalid 'place': failures are dead or failed");
    }
    if (after !== "" && !isCursor(after)) {
      return refusal("invalid_argument", "invalid 'after': it must be 'next' of an answer");
    }
    const { tenantId } = call.identity;
    const nowMs = clock.nowMs();
    const wanted = { tenantId, filter: filter.value, after, trendEndMs: nowMs };
    const found = await queue.failureGroups(wanted);
    if (found === undefined) return refusal("overloaded");
    const triaged = new Map((await queue.triageOf(tenantId)).map((each) => [each.group, each]));
    const countOf = ({ dead, failed }: { dead: number; failed: number }): number => dead + failed;
    const sorted = found.groups.toSorted((one, other) => countOf(other) - countOf(one));
    const groups = sorted.map((group) => {
      const triage = triaged.get(group.fingerprint);
      return { ...group, state: stateOf(group, triage, nowMs), triage };
    });
    return { ok: true, value: { ...found, groups } };
  },
};
