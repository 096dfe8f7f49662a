/** What has happened between two looks at the server, queue by queue. */
import type { Style } from "../terminal/style.ts";
import { count } from "../terminal/units.ts";
import type { QueueSnapshot, Snapshot } from "./snapshot.ts";

export interface Activity {
  readonly queue: string;
  readonly created: number;
  readonly claimed: number;
  readonly completed: number;
  readonly failed: number;
  readonly expired: number;
  readonly now: QueueSnapshot;
}

/** One entry for every queue in which something happened, in the order of their names. */
export function activityBetween(before: Snapshot, after: Snapshot): readonly Activity[] {
  // After a restart of the server its counters begin anew.
  const isSame = before.startedSeconds === after.startedSeconds;
  return [...after.queues]
    .map(([queue, now]) => {
      const then = isSame ? before.queues.get(queue) : undefined;
      return {
        queue,
        created: now.created - (then?.created ?? 0),
        claimed: now.claimed - (then?.claimed ?? 0),
        completed: now.completed - (then?.completed ?? 0),
        failed: now.failed - (then?.failed ?? 0),
        expired: now.expired - (then?.expired ?? 0),
        now,
      };
    })
    .filter(({ created, claimed, completed, failed, expired }) => {
      return created + claimed + completed + failed + expired > 0;
    })
    .sort((a, b) => (a.queue < b.queue ? -1 : 1));
}

export function activityLine(activity: Activity, time: string, style: Style): string {
  const { queue, now } = activity;
  const did = [
    told(activity.created, "enqueued", style.cyan),
    told(activity.claimed, "claimed", (text) => text),
    told(activity.completed, "completed", style.green),
    told(activity.failed, "failed", style.red),
    told(
      activity.expired,
      activity.expired === 1 ? "lease expired" : "leases expired",
      style.yellow,
    ),
  ].filter((text) => text !== "");
  const left = `ready ${count(now.ready)}, running ${count(now.inProgress)}`;
  return `${style.dim(time)}  ${style.bold(queue)}  ${did.join("  ")}  ${style.dim(`(${left})`)}`;
}

function told(number: number, word: string, paint: (text: string) => string): string {
  return number > 0 ? paint(`${count(number)} ${word}`) : "";
}
