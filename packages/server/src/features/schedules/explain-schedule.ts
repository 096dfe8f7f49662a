/** Why a schedule did or did not create a task at an instant, as a sentence and for programs. */
import type { KeptOf, ScheduleExplanation } from "@codeq/protocol/api";
import type { SkipReason, Spec, Zone } from "@codeq/queue";
import type { InstantOfSchedule, ShownSchedule } from "../../core/records/schedule-record.ts";
import { localText } from "./planned-runs.ts";

type Explanation = KeptOf<typeof ScheduleExplanation>;

interface Asked {
  readonly schedule: ShownSchedule;
  readonly spec: Spec;
  readonly zone: Zone;
  readonly asked: { readonly ms: number; readonly missing: string | undefined };
  /** The first nominal instant at or behind the one that was asked about. */
  readonly nominalMs: number | undefined;
  /** Its task or its skips; undefined when the instant that was asked about is not nominal. */
  readonly looked: InstantOfSchedule | undefined;
  readonly nowMs: number;
}

const reasons: Readonly<Record<SkipReason, string>> = {
  late: "the server was not running, or too busy, until it was too late to catch up (see catchUp and within)",
  superseded: "a later instant was due at the same time, and catchUp creates only the latest",
  overlap: "a task of the schedule had not ended (see overlap)",
  replaced: "it waited for a task to end, and a later instant took its place",
  paused: "the schedule was paused",
  quota: "the tenant had no room for another task (see its quota)",
  unique: "another task had the unique key (see unique)",
};

export function explained(of: Asked): Explanation {
  const { schedule, asked, nominalMs, looked, zone } = of;
  const head = { scheduleId: schedule.id, atMs: asked.ms };
  const local = (ms: number): string => `${localText(ms + zone.offsetMs(ms))} ${schedule.tz}`;
  const gap =
    asked.missing === undefined
      ? ""
      : `${asked.missing} does not exist in ${schedule.tz}: clocks were set forward to ${local(asked.ms)}. `;
  if (looked === undefined || nominalMs === undefined) {
    const next =
      nominalMs === undefined ? "; no instant follows" : `; the next is ${local(nominalMs)}`;
    const text = `${gap}The schedule does not fire at ${local(asked.ms)}${next}.`;
    return { ...head, nominalMs: undefined, outcome: "not_nominal", text };
  }
  return {
    ...head,
    nominalMs,
    ...outcomeOf(of, { nominalMs, looked, when: local(nominalMs), gap }),
  };
}

function outcomeOf(
  { schedule, nowMs }: Asked,
  at: { nominalMs: number; looked: InstantOfSchedule; when: string; gap: string },
): Pick<Explanation, "outcome" | "text" | "taskId" | "why"> {
  const { nominalMs, looked, when, gap } = at;
  const { taskId, skips } = looked;
  if (taskId !== undefined) {
    return { outcome: "fired", taskId, text: `${gap}It created task ${taskId} for ${when}.` };
  }
  if (schedule.waitingMs === nominalMs) {
    const text = `${gap}The task for ${when} waits until the running one has ended (overlap: ${schedule.overlap}).`;
    return { outcome: "waiting", text };
  }
  if (skips !== undefined) {
    const { why } = skips;
    return { outcome: "skipped", why, text: `${gap}No task for ${when}: ${reasons[why]}.` };
  }
  if (nominalMs <= schedule.handledMs) {
    const isBefore = nominalMs <= schedule.createdMs;
    const text = isBefore
      ? `${gap}The schedule was created after ${when}; use backfill for the past.`
      : `${gap}The outcome of ${when} is no longer known: its task was deleted, or the spec was changed later.`;
    return { outcome: "unknown", text };
  }
  if (schedule.paused !== undefined) {
    const { by, reason } = schedule.paused;
    const because = reason === "" ? "" : `: ${reason}`;
    return {
      outcome: "paused",
      text: `${gap}No task for ${when} while the schedule is paused by ${by}${because}.`,
    };
  }
  const dueMs = nominalMs + schedule.delayMs;
  return dueMs <= nowMs
    ? { outcome: "due", text: `${gap}The task for ${when} is due and will be created in a moment.` }
    : {
        outcome: "planned",
        text: `${gap}The task for ${when} will be created at that time${late(schedule.delayMs)}.`,
      };
}

function late(delayMs: number): string {
  return delayMs === 0 ? "" : `, plus ${Math.round(delayMs / 1000)} s because of spread`;
}
