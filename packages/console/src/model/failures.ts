/** Failures by cause, as the server puts them together. */
import type { ItemOf } from "@codeq/protocol";
import { ask, callOf, tenant } from "../api.ts";
import { type Answer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

export type FailureGroup = ItemOf<"GET /admin/failure-groups">;
export type GroupState = FailureGroup["state"];

export interface Failures {
  readonly groups: readonly FailureGroup[];
  /** There are more failures than were looked at. */
  readonly isPartial: boolean;
}

const pagesMax = 10;

export function useFailures(queue: string): Answer<Failures> {
  const of = useStore(tenant);
  return useQuery(`failures:${of}:${queue}`, () => loadFailures(queue), {
    everyMs: 5000,
    follows: queue === "" ? {} : { queue },
  });
}

async function loadFailures(command: string): Promise<Failures> {
  const found = new Map<string, FailureGroup>();
  let after: string | undefined;
  for (let pages = 0; pages < pagesMax; pages += 1) {
    const query = { place: "dead", command: command || undefined, after } as const;
    const page = await ask(callOf("GET /admin/failure-groups", { query }));
    for (const group of page.groups) found.set(group.id, added(found.get(group.id), group));
    after = page.next;
    if (after === undefined) break;
  }
  const groups = [...found.values()].sort((one, other) => other.count - one.count);
  return { groups, isPartial: after !== undefined };
}

/** Pages know only of what they looked at. */
function added(before: FailureGroup | undefined, group: FailureGroup): FailureGroup {
  if (before === undefined) return group;
  return {
    ...before,
    count: before.count + group.count,
    dlq: before.dlq + group.dlq,
    failed: before.failed + group.failed,
    firstSeen: [before.firstSeen, group.firstSeen].sort()[0] ?? "",
    lastSeen: [before.lastSeen, group.lastSeen].sort()[1] ?? "",
    trend: before.trend.map((each, hour) => each + (group.trend[hour] ?? 0)),
    state: [before.state, group.state].includes("returned") ? "returned" : before.state,
  };
}
