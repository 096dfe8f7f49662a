/** A bulk job replays a task once, also when the task fails again and the server has ended in between. */
import { isFailure, type TaskId } from "@codeq/queue";
import type { MakeChecker } from "./checker.ts";

export const jobsApplyOnce: MakeChecker = ({ report }) => {
  /** Which job has decided on the replay of a task that comes next; empty for none. */
  const deciders = new Map<TaskId, string>();
  /** The jobs that replayed a task, in the order of the log. */
  const replays = new Map<TaskId, string[]>();
  return {
    started: ({ core }) => {
      if (core === undefined) return;
      const { shard } = core;
      const act = shard.act.bind(shard);
      shard.act = (of, action) => {
        const task = shard.store.task(of.id);
        if (task !== undefined && isFailure(task) && action.kind === "replay")
          deciders.set(of.id, action.job ?? "");
        return act(of, action);
      };
    },
    event: ({ kind, id }) => {
      if (kind !== "replay") return;
      const job = deciders.get(id) ?? "";
      const before = replays.get(id) ?? [];
      if (job !== "" && before.includes(job)) report(`job ${job} replayed ${id} twice`);
      replays.set(id, [...before, job]);
    },
    // A replay that the log has lost did not happen, and may be done again.
    recovered: ({ lost }) => {
      for (const { kind, id } of lost.flatMap(({ events }) => events)) {
        if (kind === "replay") replays.get(id)?.pop();
      }
    },
  };
};
