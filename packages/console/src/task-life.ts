/** The places of a task over time, from its creation time and its attempts. */
import type { Attempt, TaskRow } from "./model/tasks.ts";

/** The place of a task that has ended. */
export type End = "done" | "failed" | "dead" | "cancelled";

export interface Stay {
  readonly place: "ready" | "delayed" | "held" | "leased" | End;
  readonly fromMs: number;
  readonly toMs: number;
  /** Which attempt, of a stay with a worker. */
  readonly attempt?: number;
  readonly isBad?: boolean;
}

const good = new Set(["running", "completed", "unsent", "interrupted"]);

/** Without gaps, the earliest first. */
export function lifeOf(task: TaskRow, nowMs: number): Stay[] {
  const stays: Stay[] = [];
  const add = (stay: Stay): void => {
    if (stay.toMs > stay.fromMs || stay.place === "leased") stays.push(stay);
  };
  const wait = (fromMs: number, toMs: number, delayMs: number): void => {
    const dueMs = Math.min(toMs, fromMs + delayMs);
    add({ place: "delayed", fromMs, toMs: dueMs });
    add({ place: "ready", fromMs: dueMs, toMs });
  };
  let atMs = Date.parse(task.createdAt);
  let delayMs = 0;
  const omitted = task.attemptsOmitted ?? 0;
  for (const [index, each] of (task.attemptHistory ?? []).entries()) {
    const startMs = Date.parse(each.startedAt);
    wait(atMs, startMs, delayMs);
    atMs = each.endedAt === undefined ? nowMs : Date.parse(each.endedAt);
    add({
      place: "leased",
      fromMs: startMs,
      toMs: atMs,
      attempt: omitted + index + 1,
      isBad: isBad(each),
    });
    delayMs = (each.delaySeconds ?? 0) * 1000;
  }
  const endMs = task.endedAt === undefined ? undefined : Date.parse(task.endedAt);
  if (endMs !== undefined) {
    wait(atMs, endMs, delayMs);
    add({ place: endOf(task), fromMs: endMs, toMs: Math.max(nowMs, endMs + 1) });
  } else if (task.place === "delayed" || task.place === "held") {
    add({ place: task.place, fromMs: atMs, toMs: nowMs });
  } else if (task.place === "ready") wait(atMs, nowMs, delayMs);
  return stays.length === 0 ? [{ place: "ready", fromMs: nowMs - 1, toMs: nowMs }] : stays;
}

export function endOf({ place }: TaskRow): End {
  return place === "failed" || place === "dead" || place === "cancelled" ? place : "done";
}

function isBad({ outcome }: Attempt): boolean {
  return !good.has(outcome);
}
