/**
 * No attempt goes on for longer than the timeout of its task while nothing disturbs the server, however
 * often its worker extends the lease; and none is said to have timed out before.
 */
import type { TaskId } from "@codeq/queue";
import type { MakeChecker } from "./checker.ts";

/** How long after a disturbance the server may still be busy with it: leases have a grace after it. */
const recoveryMs = 10_000;
/** Until the disk has it. */
const lateMsMax = 250;
/** From the beginning of an attempt until the log has the claim. */
const claimMsMax = 1000;

export const withinTimeout: MakeChecker = ({ world, report }) => {
  const timeoutMs = new Map<TaskId, number>();
  /** When the log had the claim, which is after the attempt began. */
  const claimedMs = new Map<TaskId, number>();
  return {
    event: ({ kind, id, after, record }) => {
      if (kind === "create") timeoutMs.set(id, after?.extras?.timeoutMs ?? 0);
      if (kind === "claim") claimedMs.set(id, record.atMs);
      const last = after?.trail?.attempts.at(-1);
      if ((kind !== "comeback" && kind !== "bury") || last?.outcome !== "timed_out") return;
      const limit = timeoutMs.get(id) ?? 0;
      const fromMs = claimedMs.get(id) ?? 0;
      // A start reckons by the wall clock, and time in which the server did not run does not count.
      const isQuiet = Math.max(world.healthySinceMs, world.weather.slowUntilMs) < fromMs;
      if (limit === 0) report(`${id} timed out and has no timeout`);
      else if (isQuiet && record.atMs - fromMs < limit - claimMsMax) {
        report(`${id} timed out after ${record.atMs - fromMs} ms instead of ${limit}`);
      }
    },
    stepped: () => {
      if (world.serving?.core.store.state !== "open") return;
      const sinceMs = Math.max(world.healthySinceMs, world.weather.slowUntilMs) + recoveryMs;
      for (const { id, place } of world.ledger.tasks.values()) {
        const limit = timeoutMs.get(id) ?? 0;
        if (place.in !== "leased" || limit === 0) continue;
        const fromMs = Math.max(claimedMs.get(id) ?? 0, sinceMs);
        if (world.nowMs <= fromMs + limit + lateMsMax) continue;
        report(`${place.workerId} has ${id} for longer than ${limit} ms`);
      }
    },
  };
};
