/**
 * No worker is given a task for the first time when its time to live is over; the task fails instead, soon,
 * and not before. A task that came back from a worker, or was replayed, never fails for that.
 */
import type { TaskId } from "@codeq/queue";
import type { MakeChecker } from "./checker.ts";

/** How long after a disturbance the server may still be busy with it. */
const recoveryMs = 2500;
/** The sweep takes those of a tenth of a second together; then the disk has to have it. */
const lateMsMax = 250;

export const begunInTime: MakeChecker = ({ world, report }) => {
  /** When each task that has not been begun has to be, as the log said first. */
  const startByMs = new Map<TaskId, number>();
  return {
    event: ({ kind, id, before, after }) => {
      const ms = startByMs.get(id) ?? 0;
      // An edit that makes a delayed task ready at once counts its time to live from there.
      const isEarly =
        kind === "promote" && before?.place.in === "delayed" && before.place.dueMs > world.wallMs;
      if (kind === "create" || kind === "edit" || isEarly) {
        startByMs.set(id, after?.extras?.startByMs ?? 0);
      }
      const isBack = kind === "comeback" || kind === "bury" || kind === "replay";
      if (isBack && after?.trail?.attempts.at(-1)?.outcome !== "unsent") {
        startByMs.delete(id);
      }
      if (kind === "claim" && ms !== 0 && after?.place.in === "leased") {
        const { sinceMs } = after.place;
        if (sinceMs >= ms) report(`${id} was to be begun by ${ms} and is claimed at ${sinceMs}`);
      }
      if (kind !== "lapse") return;
      if (ms === 0) report(`${id} expired from ${before?.place.in} and had no time to live`);
      else if (world.wallMsMax < ms) report(`${id} expired before ${ms}`);
    },
    stepped: () => {
      if (world.serving?.core.store.state !== "open") return;
      const sinceMs = Math.max(world.healthySinceMs, world.weather.slowUntilMs);
      if (world.nowMs - sinceMs < recoveryMs) return;
      for (const { id, place, extras } of world.ledger.tasks.values()) {
        if (place.in !== "ready" && place.in !== "delayed") continue;
        const ms = extras?.startByMs ?? 0;
        if (ms === 0 || ms > world.wallMs - lateMsMax) continue;
        report(`${id} was to be begun by ${ms} and still waits at ${world.wallMs}`);
      }
    },
    recovered: ({ lost }) => {
      for (const { events } of lost) {
        for (const { id } of events) {
          startByMs.set(id, world.ledger.tasks.get(id)?.extras?.startByMs ?? 0);
        }
      }
    },
  };
};
