/**
 * A task that is done or dead stays so until it is removed, or replayed when it failed, and nobody ever sees it
 * otherwise.
 */
import type { Task, TaskId } from "@codeq/queue";
import { sightingsOf } from "../exchange.ts";
import { isTerminal } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

export const terminalIsFinal: MakeChecker = ({ world, report }) => {
  /** How each task ended, and the newest request there was when somebody was told. */
  const ended = new Map<TaskId, { readonly how: string; readonly toldAt: number }>();
  let newest = 0;
  const see = (task: Task, where: string, asked = Number.POSITIVE_INFINITY): void => {
    const before = ended.get(task.id);
    // An answer to an earlier request may have been overtaken by the news.
    if (before === undefined || asked <= before.toldAt) return;
    if (endOf(task) !== before.how) {
      report(`${task.id} was ${before.how} and is ${task.place.in} in ${where}`);
    }
  };
  const remember = (task: Task): void => {
    const known = world.ledger.tasks.get(task.id);
    if (!isTerminal(task) || ended.has(task.id)) return;
    // An old answer about a dead letter that has been replayed since.
    if (known === undefined || !isTerminal(known) || known.replays !== task.replays) return;
    ended.set(task.id, { how: endOf(task), toldAt: newest });
  };
  return {
    invoked: ({ number }) => {
      newest = number;
    },
    event: ({ kind, id, before, after }) => {
      if (kind === "remove" || kind === "replay") ended.delete(id);
      if (kind === "replay") return;
      if (before === undefined || after === undefined || !isTerminal(before)) return;
      report(`${id} was ${before.place.in} and became ${after.place.in}`);
    },
    answered: (exchange) => {
      for (const { task, result } of sightingsOf(exchange)) {
        if (task !== undefined && world.ledger.tasks.has(task.id)) {
          see(task, `the answer to ${exchange.number}`, exchange.number);
          remember(task);
        }
        const known = result === undefined ? undefined : world.ledger.tasks.get(result.taskId);
        if (known !== undefined) remember(known);
      }
    },
    recovered: ({ lost }) => {
      for (const { events } of lost) for (const { id } of events) ended.delete(id);
    },
    looked: ({ tasks }) => {
      for (const id of ended.keys()) {
        const task = tasks.get(id);
        // A replay that is decided reaches the log a little later.
        const isReplayed = task?.replays !== world.ledger.tasks.get(id)?.replays;
        if (task !== undefined && !isReplayed) see(task, "the store");
      }
    },
  };
};

function endOf(task: Task): string {
  return task.place.in === "done" ? task.place.how : task.place.in;
}
