/** The events that a feed gets for a change. */
import type { Change, Task, Trail, WorkerId } from "@codeq/queue";
import type { ScheduleReport } from "../../telemetry/events.ts";
import type { ScheduleEvent, TaskEvent } from "../../telemetry/feed.ts";

export function eventsOf(change: Change): readonly TaskEvent[] {
  const { before, after, because } = change;
  if (after === undefined) return [];
  switch (because) {
    case "created":
      return [
        {
          event: "created",
          ...about(after),
          ...delayOf(after),
          ...scheduleOf(after),
          ...uniqueOf(after),
        },
      ];
    case "promoted":
      return [{ event: "promoted", ...about(after) }];
    case "replayed":
      return [{ event: "replayed", ...about(after) }];
    case "edited":
      return [
        {
          event: "edited",
          ...about(after),
          ...delayOf(after),
          ...uniqueOf(after),
          ...reasonOf(change),
        },
      ];
    case "claimed":
      return [{ event: "claimed", ...about(after), ...workerOf(after) }];
    case "cancelled":
      return after.place.in === "done"
        ? [{ event: "failed", ...about(after), how: "cancelled", reason: after.error }]
        : [];
    case "unreached":
      return [{ event: "failed", ...about(after), how: "dead_letter", reason: after.error }];
    case "lapsed":
      return [{ event: "failed", ...about(after), how: "expired", reason: after.error }];
    case "finished":
    case "nacked":
    case "held":
    case "abandoned":
    case "released":
    case "expired":
      return before === undefined ? [] : eventsOfAttempt(change, before, after);
    case "extended":
      return before?.trail === after.trail ? [] : eventsOfReport(after, before?.trail);
    case "linked":
    case "attached":
    case "deleted":
      return [];
  }
}

/** The report that came with a heartbeat. */
function eventsOfReport(after: Task, before: Trail | undefined): readonly TaskEvent[] {
  const { progress, logs = [] } = after.trail ?? {};
  const known = { ...about(after), ...workerOf(after) };
  const events: TaskEvent[] = [];
  if (progress !== undefined && progress !== before?.progress) {
    const { percent, text } = progress;
    events.push({ event: "progress", ...known, percent, ...(text === "" ? {} : { text }) });
  }
  const lines = logs.filter((line) => before?.logs.includes(line) !== true);
  if (lines.length > 0) {
    events.push({ event: "log", ...known, lines: lines.map(({ text }) => text) });
  }
  return events;
}

/** The events of an attempt that is over: the task ended, or can be claimed again now or later. */
function eventsOfAttempt(change: Change, before: Task, after: Task): readonly TaskEvent[] {
  // The attempt may be in the count of attempts already.
  const known = { ...about(after), attempt: before.attempts + 1, ...workerOf(before) };
  const { place } = after;
  if (place.in !== "done" && place.in !== "dead") return [{ ...known, ...wayBack(change, after) }];
  const events: TaskEvent[] = [];
  if (change.because === "expired") {
    events.push({ event: "lease_expired", ...known, ...reasonOf(change) });
  }
  if (place.in === "done" && place.how === "completed") {
    events.push({ event: "completed", ...known });
  } else {
    const how = howItFailed(after);
    events.push({ event: "failed", ...known, how, reason: after.error });
  }
  return events;
}

function howItFailed({ place }: Task): NonNullable<TaskEvent["how"]> {
  if (place.in === "dead") return "dead_letter";
  return place.in === "done" && place.how === "cancelled" ? "cancelled" : "permanent";
}

function wayBack(change: Change, after: Task): Pick<TaskEvent, "event"> & Partial<TaskEvent> {
  switch (change.because) {
    case "nacked":
    case "held":
      return { event: "retried", ...delayOf(after), ...reasonOf(change) };
    case "abandoned":
      return { event: "released", how: after.handBacks > 0 ? "interrupted" : "abandoned" };
    case "expired":
      return { event: "lease_expired", ...delayOf(after), ...reasonOf(change) };
    default:
      return { event: "released", how: "unsent" };
  }
}

function reasonOf({ reason }: Change): { reason?: string } {
  return reason === "" ? {} : { reason };
}

type AlwaysSaid = "atMs" | "tenantId" | "taskId" | "command" | "priority" | "attempt";
type About = Pick<TaskEvent, AlwaysSaid | "tags" | "batchId">;

/** The fields of every event. */
function about(task: Task): About {
  const { id, tenantId, command, priority, attempts, updatedMs, extras, batch } = task;
  return {
    atMs: updatedMs,
    tenantId,
    taskId: id,
    command,
    priority,
    attempt: attempts + 1,
    ...(extras === undefined || extras.tags.length === 0 ? {} : { tags: extras.tags }),
    ...(batch === undefined ? {} : { batchId: batch.id }),
  };
}

function workerOf({ place }: Task): { workerId?: WorkerId } {
  return place.in === "leased" ? { workerId: place.workerId } : {};
}

function scheduleOf({ schedule }: Task): Pick<TaskEvent, "scheduleId" | "scheduledForMs"> {
  return schedule === undefined ? {} : { scheduleId: schedule.id, scheduledForMs: schedule.forMs };
}

function uniqueOf({ unique }: Task): Pick<TaskEvent, "uniqueKey" | "waitsForKey"> {
  if (unique === undefined) return {};
  return { uniqueKey: unique.key, ...(unique.isHeld ? { waitsForKey: true } : {}) };
}

/** The events of what a schedule did besides creating tasks. */
export function eventsOfSchedule(report: ScheduleReport): readonly ScheduleEvent[] {
  const { tenantId, scheduleId, command, atMs, skipped, pause, isResumed } = report;
  const head = { atMs, tenantId, scheduleId, command };
  const events: ScheduleEvent[] = skipped.map(({ why, fromMs, count }) => ({
    event: "schedule_skipped",
    ...head,
    scheduledForMs: fromMs,
    count,
    reason: why,
  }));
  if (isResumed === true) events.push({ event: "schedule_resumed", ...head });
  if (pause !== undefined) {
    events.push({ event: "schedule_paused", ...head, by: pause.by, reason: pause.reason });
  }
  return events;
}

/** A task that waits for another one has no time yet. */
function delayOf({ place, unique, updatedMs }: Task): { delaySeconds?: number } {
  if (place.in !== "delayed" || unique?.isHeld === true) return {};
  return { delaySeconds: Math.max(0, Math.round(place.dueMs - updatedMs) / 1000) };
}
