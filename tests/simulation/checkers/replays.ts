/**
 * A failure comes back only when an administrator of its tenant asked for it, with its count raised
 * and without its result. A replay that was acknowledged has happened, and a crash does not undo it. A
 * search finds every task that matches and did not change meanwhile.
 */
import type { TaskId } from "@codeq/queue";
import { matches } from "../../../packages/server/src/core/search/task-filter.ts";
import { readFilter } from "../../../packages/server/src/edge/task-filter-input.ts";
import type { AnyExchange } from "../exchange.ts";
import type { MakeChecker } from "./checker.ts";

export const replays: MakeChecker = ({ world, report }) => {
  /** Ids, or tenants that asked for all that match something. */
  const asked = new Set<string>();
  const acknowledged = new Map<TaskId, { readonly replays: number; readonly atMs: number }>();
  const isLost = (id: TaskId, count: number): boolean =>
    (world.ledger.tasks.get(id)?.replays ?? count) < count;
  const checkPage = (exchange: AnyExchange): void => {
    if (exchange.verb !== "listTasks" || !exchange.answer.ok) return;
    const { input, caller, invokedMs, answer } = exchange;
    const filter = readFilter(input);
    if (!filter.ok || input.after !== "" || filter.value.payload !== undefined) return;
    const { tasks, next } = answer.value;
    const shown = new Set(tasks.map(({ id }) => id));
    for (const task of world.ledger.tasks.values()) {
      const last = world.ledger.versions.get(task.id)?.at(-1)?.record;
      // What is decided of it and has not reached the log counts as a change.
      const decided = world.serving?.core.store.task(task.id);
      const isSame = decided?.updatedMs === task.updatedMs && decided.place.in === task.place.in;
      const isStill = isSame && (last?.durableMs ?? Number.POSITIVE_INFINITY) < invokedMs;
      if (!isStill || task.tenantId !== caller.tenant || !matches(task, filter.value)) continue;
      const isBehind = input.order === "oldest" ? task.id > (next ?? "~") : task.id < (next ?? "");
      if (!shown.has(task.id) && !isBehind) report(`${exchange.number} did not find ${task.id}`);
    }
  };
  return {
    invoked: ({ verb, caller: { tenant }, input }) => {
      if (verb === "createJob" && input.action === "replay" && !input.isDryRun) asked.add(tenant);
      if (verb === "replayTask") asked.add(`${tenant} ${input.id}`);
      if (verb !== "replayDeadLetters" || input.isDryRun) return;
      if (input.ids.length === 0) asked.add(tenant);
      for (const id of input.ids) asked.add(`${tenant} ${id}`);
    },
    event: ({ kind, id, before, after }) => {
      if (kind !== "replay" || before === undefined || after === undefined) return;
      const { tenantId } = after;
      if (!asked.has(tenantId) && !asked.has(`${tenantId} ${id}`)) {
        report(`${id} was replayed and nobody asked for it`);
      }
      if (after.replays !== before.replays + 1) report(`${id} has ${after.replays} replays`);
    },
    answered: (exchange) => {
      checkPage(exchange);
      if (exchange.verb !== "replayTask" || !exchange.answer.ok) return;
      const { id, replays: count } = exchange.answer.value;
      if (isLost(id, count)) report(`${id} was said to be replayed, and is not`);
      acknowledged.set(id, { replays: count, atMs: exchange.answeredMs });
    },
    recovered: ({ mayHaveLost }) => {
      for (const [id, { replays: count, atMs }] of acknowledged) {
        if (isLost(id, count) && !mayHaveLost(atMs)) report(`the replay of ${id} is lost`);
        if (isLost(id, count)) acknowledged.delete(id);
      }
    },
  };
};
