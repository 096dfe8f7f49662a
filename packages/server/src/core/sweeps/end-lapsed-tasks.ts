/** Ends tasks that no worker began within their time to live, whether or not anybody asks for them. */

import type { SweepConfig } from "../../config/settings.ts";
import type { Broker } from "../broker/broker.ts";
import type { Clock } from "../clock.ts";
import { DueSweep } from "./due-sweep.ts";

/** No task is handed out after its time, so that its end may be a little late. */
const stepMs = 100;

export function endLapsedTasks(parts: {
  readonly broker: Broker;
  readonly clock: Clock;
  readonly config: SweepConfig;
}): DueSweep {
  const { broker, clock, config } = parts;
  const { store } = broker;
  return new DueSweep({
    name: "end-lapsed-tasks",
    store,
    clock,
    batchMax: config.sweepBatchMax,
    stepMs,
    dueAfter: (after, untilMs, limit) => store.lapsedAfter(after, untilMs, limit),
    act: (due) => broker.lapse(due.map(({ id }) => id)),
  });
}
