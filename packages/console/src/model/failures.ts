/** Failures, which are dead letters and failed tasks, in groups of the same cause. */
import type { ItemOf } from "@codeq/protocol";
import { ask, callOf, tenant } from "../api.ts";
import { type Answer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

export type FailureGroup = ItemOf<"GET /admin/failure-groups">;

/** All groups with exact counts, the largest first. A tenant with thousands of groups has several pages of them. */
export function useFailures(queue: string): Answer<readonly FailureGroup[]> {
  const of = useStore(tenant);
  return useQuery(`failures:${of}:${queue}`, () => loadFailures(queue), {
    everyMs: 5000,
    follows: queue === "" ? {} : { queue },
  });
}

async function loadFailures(command: string): Promise<readonly FailureGroup[]> {
  const groups: FailureGroup[] = [];
  let after: string | undefined;
  do {
    const query = { place: "failure", command: command || undefined, after } as const;
    const page = await ask(callOf("GET /admin/failure-groups", { query }));
    groups.push(...page.groups);
    after = page.next;
  } while (after !== undefined);
  return groups.sort((one, other) => other.count - one.count);
}
