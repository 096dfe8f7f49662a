/** There is one result exactly when the task is done or dead, and it says the same as the task. */
import type { Result, Task } from "@codeq/queue";
import { sightingsOf } from "../exchange.ts";
import { isTerminal } from "../ledger.ts";
import { resultBodiesOf } from "../store-view.ts";
import type { MakeChecker } from "./checker.ts";

export const resultWhenTerminal: MakeChecker = ({ report }) => ({
  looked: ({ keys, tasks }) => {
    for (const task of tasks.values()) {
      // While it is leased, the files that were stored so far stand there.
      const bodies = resultBodiesOf(keys, task).filter(
        ({ json }) => isTerminal(task) || json !== "",
      );
      if (bodies.length !== Number(isTerminal(task))) {
        report(`${task.id} is ${task.place.in} and has results ${JSON.stringify(bodies)}`);
      }
    }
  },
  answered: (exchange) => {
    for (const { task, result } of sightingsOf(exchange)) {
      if (task === undefined || result === undefined) continue;
      if (isTerminal(task) && isSame(task, result)) continue;
      report(`the answer to ${exchange.number} has ${JSON.stringify({ task, result })}`);
    }
  },
});

function isSame({ place, error, attempts }: Task, result: Result): boolean {
  const isCompleted = place.in === "done" && place.how === "completed";
  const isOfStatus = result.status === (isCompleted ? "COMPLETED" : "FAILED");
  return isOfStatus && result.error === error && result.attempts === attempts;
}
