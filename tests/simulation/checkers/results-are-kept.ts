/** A result that anybody was told of stays as it is until its task is removed or replayed. */
import { type Result, resultOf, type TaskId } from "@codeq/queue";
import { sightingsOf } from "../exchange.ts";
import { resultBodiesOf } from "../store-view.ts";
import type { MakeChecker } from "./checker.ts";

export const resultsAreKept: MakeChecker = ({ world, report }) => {
  const told = new Map<TaskId, string>();
  const see = (result: Result, where: string): void => {
    const { status, resultJson, error, artifacts, attempts, completedMs } = result;
    const text = JSON.stringify([status, resultJson, error, artifacts, attempts, completedMs]);
    const before = told.get(result.taskId);
    if (before !== undefined && before !== text) report(`${where} says ${text}, not ${before}`);
    told.set(result.taskId, text);
  };
  /** Whether a dead letter was replayed after somebody looked at its result. */
  const isOld = ({ taskId, completedMs }: Result): boolean => {
    const task = world.ledger.tasks.get(taskId);
    if (task === undefined || task.replays === 0) return false;
    const { place } = task;
    return !(place.in === "done" || place.in === "dead") || place.atMs !== completedMs;
  };
  return {
    answered: (exchange) => {
      for (const { result } of sightingsOf(exchange)) {
        if (result !== undefined && !isOld(result)) see(result, `the answer to ${exchange.number}`);
      }
    },
    posted: (_task, result) => {
      if (!isOld(result)) see(result, "a webhook");
    },
    event: ({ kind, id }) => {
      if (kind === "remove" || kind === "replay") told.delete(id);
    },
    recovered: ({ lost, mayHaveLost }) => {
      for (const { events, durableMs } of lost) {
        for (const { kind, id } of events) {
          const isEnd = ["finish", "bury", "cancel", "lapse"].includes(kind);
          if (!isEnd || !told.has(id)) continue;
          if (!mayHaveLost(durableMs ?? 0)) report(`the result of ${id} is lost`);
          told.delete(id);
        }
      }
    },
    looked: ({ keys, tasks }) => {
      for (const id of told.keys()) {
        const task = tasks.get(id);
        // A replay that is decided reaches the log a little later.
        const isReplayed = task?.replays !== world.ledger.tasks.get(id)?.replays;
        if (task === undefined || isReplayed) continue;
        const [body] = resultBodiesOf(keys, task);
        const result = body === undefined ? undefined : resultOf(task, body);
        if (result === undefined) report(`the result of ${id} is not in the store`);
        else see(result, "the store");
      }
    },
  };
};
