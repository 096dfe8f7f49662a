/** Groups the failures of the caller's tenant by the fingerprint of their errors. */
import { type FailureGroups, isCursor } from "../broker/failure-groups.ts";
import { type Operation, refusal } from "./operation.ts";
import { type FilterInput, readFilter } from "./task-filter-input.ts";

export interface FailureGroupsInput {
  /** `place` is dead or failed; both without. */
  readonly filter: FilterInput;
  /** `next` of the answer before; empty for the first. */
  readonly after: string;
}

export const listFailureGroups: Operation<FailureGroupsInput, FailureGroups> = {
  name: "list_failure_groups",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "other tenants" },
  run: async ({ queue }, call, { filter: input, after }) => {
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
    const found = await queue.failureGroups({ tenantId, filter: filter.value, after });
    if (found === undefined) return refusal("overloaded");
    const countOf = ({ dead, failed }: { dead: number; failed: number }): number => dead + failed;
    const groups = found.groups.toSorted((one, other) => countOf(other) - countOf(one));
    return { ok: true, value: { ...found, groups } };
  },
};
