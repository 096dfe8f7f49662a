/** A bulk job replays a task once, also when the task is dead again and the server has ended in between. */
import type { TaskId } from "@codeq/queue";
import type { MakeChecker } from "./checker.ts";

export const jobsApplyOnce: MakeChecker = ({ report }) => {
  /** Which job has decided on the replay of a task that comes next; empty for none. */
  const deciders = new Map<TaskId, string>();
  const replayed = new Set<string>();
  return {
    started: ({ core }) => {
      if (core === undefined) return;
      const { broker } = core;
      const act = broker.act.bind(broker);
      broker.act = (of, action) => {
        const isDead = broker.store.task(of.id)?.place.in === "dead";
        if (isDead && action.kind === "replay") deciders.set(of.id, action.job ?? "");
        return act(of, action);
      };
    },
    event: ({ kind, id }) => {
      const job = deciders.get(id) ?? "";
      if (kind !== "replay" || job === "") return;
      const name = `${job} ${id}`;
      if (replayed.has(name)) report(`job ${job} replayed ${id} twice`);
      replayed.add(name);
    },
  };
};
