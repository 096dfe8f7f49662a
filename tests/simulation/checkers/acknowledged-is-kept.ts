/**
 * A task whose creation was acknowledged is there until a rule removes it. What a crash may take is
 * decided by the durability mode: in `fsync` nothing, in `interval` what was acknowledged shortly
 * before a power failure, in `os` what a power failure takes, and by the end of a process nothing.
 */
import type { TaskId } from "@codeq/queue";
import { sightingsOf } from "../exchange.ts";
import type { MakeChecker } from "./checker.ts";

export const acknowledgedIsKept: MakeChecker = ({ world, report }) => {
  const acknowledgedMs = new Map<TaskId, number>();
  return {
    answered: (exchange) => {
      if (exchange.verb !== "createTask" && exchange.verb !== "createTasks") return;
      for (const { task } of sightingsOf(exchange)) {
        if (task !== undefined && !acknowledgedMs.has(task.id)) {
          acknowledgedMs.set(task.id, exchange.answeredMs);
        }
      }
    },
    event: ({ kind, id }) => {
      if (kind === "remove") acknowledgedMs.delete(id);
    },
    recovered: ({ lost, mayHaveLost }) => {
      for (const { events } of lost) {
        for (const { kind, id } of events) {
          const ms = acknowledgedMs.get(id);
          if (kind !== "create" || ms === undefined) continue;
          if (!mayHaveLost(ms)) report(`${id}, acknowledged at ${ms}, is not in the log any more`);
          acknowledgedMs.delete(id);
        }
      }
    },
    looked: ({ tasks, isSettled }) => {
      if (!isSettled) return;
      for (const id of acknowledgedMs.keys()) {
        if (!tasks.has(id) && world.ledger.tasks.has(id)) report(`${id} is not in the store`);
        if (!tasks.has(id) && !world.ledger.versions.has(id)) report(`${id} was never written`);
      }
    },
  };
};
