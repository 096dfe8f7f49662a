/** Failures, which are dead letters and failed tasks, in groups of the same cause. */
import type { ItemOf, ReplyOf } from "@codeq/protocol";
import { ask, callOf, tenant } from "../api.ts";
import { type Answer, useQuery } from "../query.ts";
import { useStore } from "../store.ts";

export type FailureGroup = ItemOf<"GET /admin/failure-groups">;

/** Which failures: those of a queue and of a lane; empty for all. */
export interface Scope {
  readonly queue: string;
  readonly lane?: string;
}

/** More groups are not requested: a person reads few of them, and each open page would keep the server busy. */
export const groupsMax = 10_000;

/** Groups with exact counts, the largest first; all of them, up to `groupsMax`. */
export function useFailures({ queue, lane = "" }: Scope): Answer<readonly FailureGroup[]> {
  const of = useStore(tenant);
  return useQuery(`failures:${of}:${queue}:${lane}`, () => loadFailures(queue, lane), {
    everyMs: 5000,
    follows: queue === "" ? {} : { queue },
  });
}

function loadFailures(command: string, lane: string): Promise<readonly FailureGroup[]> {
  const of = { place: "failure", command: command || undefined, lane: lane || undefined } as const;
  return groupsOf((after) => ask(callOf("GET /admin/failure-groups", { query: { ...of, after } })));
}

type Page = Pick<ReplyOf<"GET /admin/failure-groups">, "groups" | "next">;

/** Reads pages until there are no more, or enough. */
export async function groupsOf(
  read: (after: string | undefined) => Promise<Page>,
): Promise<readonly FailureGroup[]> {
  const groups = new Map<string, FailureGroup>();
  let after: string | undefined;
  do {
    const page = await read(after);
    for (const group of page.groups) {
      groups.set(group.id, added(groups.get(group.id), group));
    }
    after = page.next;
  } while (after !== undefined && groups.size < groupsMax);
  return [...groups.values()].sort((one, other) => other.count - one.count);
}

/** With a condition such as a lane, a group may be on several pages. */
function added(before: FailureGroup | undefined, group: FailureGroup): FailureGroup {
  if (before === undefined) return group;
  const counts = new Map(before.commands.map(({ command, count }) => [command, count]));
  for (const { command, count } of group.commands) {
    counts.set(command, (counts.get(command) ?? 0) + count);
  }
  const isOlder = Date.parse(group.firstSeen) < Date.parse(before.firstSeen);
  return {
    ...before,
    firstSeen: isOlder ? group.firstSeen : before.firstSeen,
    commands: [...counts].map(([command, count]) => ({ command, count })),
    count: before.count + group.count,
    dlq: before.dlq + group.dlq,
    failed: before.failed + group.failed,
    trend: before.trend.map((each, hour) => each + (group.trend[hour] ?? 0)),
  };
}
