/**
 * An event feed tells nothing before it is durable, nothing that did not happen, nothing twice, and
 * of each task in the order in which it happened.
 */
import type { Place, TaskId } from "@codeq/queue";
import type { TaskEvent } from "../../../packages/server/src/telemetry/feed.ts";
import type { MakeChecker } from "./checker.ts";

/** Where a task is after the event. */
const placesAfter: Readonly<Record<TaskEvent["event"], readonly Place["in"][]>> = {
  created: ["ready", "delayed"],
  promoted: ["ready"],
  replayed: ["ready"],
  edited: ["ready", "delayed"],
  claimed: ["leased"],
  completed: ["done"],
  failed: ["done", "dead"],
  retried: ["ready", "delayed"],
  released: ["ready"],
  lease_expired: ["ready", "delayed", "dead", "done"],
  progress: ["leased"],
  log: ["leased"],
};

interface Told {
  readonly version: number;
  readonly event: TaskEvent["event"];
}

export const toldIsDurable: MakeChecker = ({ world, report }) => {
  /** The newest that was told of each task. */
  const told = new Map<TaskId, Told>();
  const check = (event: TaskEvent): void => {
    const last = told.get(event.taskId);
    // The end of the last lease is told of as what it was and as what came of it.
    const isEnd = last?.event === "lease_expired" && event.event === "failed";
    // One heartbeat may say both.
    const isSecond = isEnd || (last?.event === "progress" && event.event === "log");
    const from = last === undefined ? 0 : last.version + (isSecond ? 0 : 1);
    const versions = world.ledger.versions.get(event.taskId) ?? [];
    const version = versions.findIndex(({ task, record }, index) => {
      if (index < from || task === undefined || record.durableMs === undefined) return false;
      return task.updatedMs === event.atMs && placesAfter[event.event].includes(task.place.in);
    });
    if (version < 0) report(`${event.event} of ${event.taskId} was told and is not durable`);
    else told.set(event.taskId, { version, event: event.event });
  };
  return {
    started: (life) => {
      life.core?.feed.listen({
        tenantId: undefined,
        hear: (event) => {
          if (world.life === life && event.taskId !== undefined) check(event);
        },
        end: () => {},
      });
    },
    // What a crash took back happens again, or something else does.
    died: () => told.clear(),
  };
};
