/** A task becomes claimable within 50 ms of its time while nothing disturbs the server. */
import type { MakeChecker } from "./checker.ts";

const lateMsMax = 50;
/** With less room than this, tasks that are due together are read from the disk one by one. */
const inMemoryMin = 30;
/** How long after a disturbance the server may still be busy with it. */
const recoveryMs = 2500;

export const promotedInTime: MakeChecker = ({ world, report }) => ({
  stepped: () => {
    if (world.plan.delayedInMemoryMax < inMemoryMin) return;
    if (world.serving?.core.store.state !== "open") return;
    const sinceMs = Math.max(world.healthySinceMs, world.weather.slowUntilMs);
    if (world.nowMs - sinceMs < recoveryMs) return;
    for (const { id, place } of world.ledger.tasks.values()) {
      if (place.in !== "delayed" || place.dueMs > world.wallMs - lateMsMax) continue;
      report(`${id} was due at ${place.dueMs} and still waits at ${world.wallMs}`);
    }
  },
});
