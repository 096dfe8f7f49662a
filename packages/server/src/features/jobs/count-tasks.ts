/**
 * How many tasks a bulk job will change. Counters answer at once for the filters that they know: queue, place and
 * failure group. Any other filter is counted by reading tasks, a bounded number at a time.
 */
import type { TenantId } from "@codeq/queue";
import type { Broker } from "../../core/broker/broker.ts";
import type { TaskFilter } from "../../core/search/task-filter.ts";
import { isMeant, type JobAction } from "./job-record.ts";

export interface CountedJob {
  readonly tenantId: TenantId;
  readonly action: JobAction;
  readonly filter: TaskFilter;
}

const knownConditions = ["queue", "place", "group"];

/** Undefined when no counter knows. */
export async function countByCounters(
  broker: Broker,
  { tenantId, action, filter }: CountedJob,
): Promise<number | undefined> {
  const given = Object.entries(filter).filter(([, value]) => value !== undefined);
  if (!given.every(([name]) => knownConditions.includes(name))) return undefined;
  const { queue, place, group } = filter;
  if (group !== undefined) return await countOfGroup(broker, tenantId, filter);
  const places = placesOf(action, place);
  if (places === undefined) return undefined;
  const all = await broker.queuesOf(tenantId, false);
  return all
    .filter((each) => queue === undefined || each.queue === queue)
    .filter((each) => action.kind !== "move" || each.queue !== action.command.toLowerCase())
    .flatMap(({ counts: { ready, ...others } }) => {
      const counts = { ...others, ready: ready.reduce((sum, count) => sum + count, 0) };
      return places.map((each) => counts[each]);
    })
    .reduce((sum, count) => sum + count, 0);
}

type Counted = "ready" | "delayed" | "held" | "leased" | "dead" | "failed";

function placesOf({ kind }: JobAction, place: TaskFilter["place"]): readonly Counted[] | undefined {
  if (place === "done" || place === "cancelled") return undefined;
  if (place === "failure") return ["dead", "failed"];
  if (place !== undefined) return [place];
  return kind === "cancel" ? ["ready", "delayed", "held", "leased"] : ["ready", "delayed"];
}

async function countOfGroup(
  broker: Broker,
  tenantId: TenantId,
  filter: TaskFilter,
): Promise<number | undefined> {
  let sum = 0;
  let after: string | undefined = "";
  while (after !== undefined) {
    const page = await broker.failureGroups({ tenantId, filter, after, trendEndMs: 0 });
    if (page === undefined) return undefined;
    for (const { dead, failed } of page.groups) sum += dead + failed;
    after = page.next;
  }
  return sum;
}

/** More than a page can have: a page ends by the number of tasks that it looked at. */
const pageTasks = 100_000;

/** The next tasks of a count by reading; undefined when too many searches wait. */
export async function countPage(
  broker: Broker,
  { tenantId, action, filter }: CountedJob,
  after: string,
): Promise<{ readonly matched: number; readonly next: string | undefined } | undefined> {
  const wanted = { tenantId, filter, order: "oldest", after, limit: pageTasks } as const;
  const page = await broker.find(wanted);
  if (page === undefined) return undefined;
  return { matched: page.tasks.filter((task) => isMeant(task, action)).length, next: page.next };
}
