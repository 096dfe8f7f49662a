/** There is a result exactly when the task is done or dead, and it says the same as the task. */
import { decodeResult } from "../../../packages/server/src/store/task-codec.ts";
import { sightingsOf } from "../exchange.ts";
import { isTerminal } from "../ledger.ts";
import { resultTextOf } from "../store-view.ts";
import type { MakeChecker } from "./checker.ts";

export const resultWhenTerminal: MakeChecker = ({ report }) => ({
  looked: ({ keys, tasks }) => {
    for (const task of tasks.values()) {
      const text = resultTextOf(keys, task.id);
      if (isTerminal(task) !== (text !== undefined)) {
        report(`${task.id} is ${task.place.in}, its result is ${text}`);
      }
      if (text === undefined) continue;
      const result = decodeResult(Buffer.from(text));
      const isCompleted = task.place.in === "done" && task.place.how === "completed";
      if ((result?.status === "COMPLETED") !== isCompleted) {
        report(`${task.id} is ${JSON.stringify(task.place)}, its result says ${result?.status}`);
      }
    }
  },
  answered: (exchange) => {
    for (const { task, result } of sightingsOf(exchange)) {
      if (task === undefined || result === undefined || isTerminal(task)) continue;
      report(`${task.id} has a result and is ${task.place.in} in the answer to ${exchange.number}`);
    }
  },
});
