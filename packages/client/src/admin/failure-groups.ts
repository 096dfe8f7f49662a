/** Failure groups of all pages: the same group may be on several, because a page covers a part of the tasks. */
import type { ItemOf } from "@codeq/protocol";
import { type AskApi, pages } from "../api-calls.ts";

type FailureGroup = ItemOf<"GET /admin/failure-groups">;

/** The largest group first. */
export async function failureGroups(
  ask: AskApi,
  query: Readonly<Record<string, string | undefined>>,
): Promise<readonly FailureGroup[]> {
  const groups = new Map<string, FailureGroup>();
  for await (const group of pages(ask, "GET /admin/failure-groups", query)) {
    groups.set(group.id, addGroup(groups.get(group.id), group));
  }
  return [...groups.values()].sort((one, other) => other.count - one.count);
}

function addGroup(before: FailureGroup | undefined, group: FailureGroup): FailureGroup {
  if (before === undefined) return group;
  const counts = new Map(before.commands.map(({ command, count }) => [command, count]));
  for (const { command, count } of group.commands) {
    counts.set(command, (counts.get(command) ?? 0) + count);
  }
  const [last, first] =
    Date.parse(before.lastSeen) >= Date.parse(group.lastSeen) ? [before, group] : [group, before];
  const isOlder = Date.parse(first.firstSeen) < Date.parse(last.firstSeen);
  return {
    ...last,
    count: before.count + group.count,
    dlq: before.dlq + group.dlq,
    failed: before.failed + group.failed,
    firstSeen: isOlder ? first.firstSeen : last.firstSeen,
    commands: [...counts].map(([command, count]) => ({ command, count })),
    trend: last.trend.map((count, hour) => count + (first.trend[hour] ?? 0)),
  };
}
