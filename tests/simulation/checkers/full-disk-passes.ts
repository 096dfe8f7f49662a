/** A full disk is a state that passes: when there is room again the server takes writes again. */
import type { MakeChecker } from "./checker.ts";

const reopenMsMax = 3000;

export const fullDiskPasses: MakeChecker = ({ world, report }) => ({
  stepped: () => {
    const { serving, roomSinceMs, weather, stalledMs } = world;
    if (serving?.core.store.state !== "full") return;
    if (roomSinceMs === undefined) return;
    const sinceMs = Math.max(serving.changedMs, roomSinceMs, weather.slowUntilMs, stalledMs);
    if (world.nowMs - sinceMs > reopenMsMax) {
      report(`there has been room since ${sinceMs} and writes are still refused`);
    }
  },
  answered: (exchange) => {
    const { answer } = exchange;
    if (answer.ok || answer.code !== "disk_full") return;
    // A refusal of this kind needs a reason that the simulation knows of.
    if (world.fullFaults === 0) report(`${exchange.number} was refused and no disk was ever full`);
  },
});
