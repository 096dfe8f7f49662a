/**
 * Every claim is counted: the token of a task is the number of times it was claimed, no two
 * workers are given the same token, and a task that ends dead was delivered as often as its attempts
 * and its free hand-backs say. What came back is in the history of the task, with who had it.
 */
import { isFailure, type TaskId } from "@codeq/queue";
import type { MakeChecker } from "./checker.ts";

export const claimsAreCounted: MakeChecker = ({ world, report }) => {
  const holders = new Map<string, string>();
  const countOf = (id: TaskId) => {
    let claims = 0;
    let comebacks = 0;
    let previous: { in: string; attempts: number } | undefined;
    for (const { task } of world.ledger.versions.get(id) ?? []) {
      if (task === undefined) continue;
      if (task.place.in === "leased" && previous?.in !== "leased") claims += 1;
      const isBack = ["ready", "delayed", "dead"].includes(task.place.in) || isFailure(task);
      if (previous?.in === "leased" && isBack) comebacks += 1;
      previous = { in: task.place.in, attempts: task.attempts };
    }
    return { claims, comebacks };
  };
  return {
    event: ({ kind, id, before, after }) => {
      if (after === undefined || kind === "create") return;
      const { claims, comebacks } = countOf(id);
      const now = kind === "claim" ? claims + 1 : claims;
      if (after.leaseToken !== now) report(`${id} was claimed ${now} times: ${after.leaseToken}`);
      if (kind === "comeback" || kind === "bury") {
        const kept = after.trail?.attempts.at(-1);
        const worker = before?.place.in === "leased" ? before.place.workerId : "";
        if (kept?.leaseToken !== after.leaseToken || kept.workerId !== worker) {
          report(`the attempt ${after.leaseToken} of ${id} is not in its history`);
        }
      }
      if (kind === "bury" && claims !== comebacks + 1) {
        report(`${id} is dead after ${claims} claims and ${comebacks} comebacks`);
      }
      if (kind === "bury" && claims < after.maxAttempts) {
        report(`${id} is dead after ${claims} of ${after.maxAttempts} attempts`);
      }
    },
    answered: (exchange) => {
      if (exchange.verb !== "claimTasks" || !exchange.answer.ok) return;
      for (const { task } of exchange.answer.value) {
        const key = `${task.id} ${task.leaseToken}`;
        const holder = `${exchange.caller.subject} in ${exchange.number}`;
        const other = holders.get(key);
        if (other !== undefined) report(`${key} was given to ${other} and to ${holder}`);
        holders.set(key, holder);
      }
    },
    recovered: ({ lost }) => {
      for (const { events } of lost) {
        for (const { id, after } of events) holders.delete(`${id} ${after?.leaseToken}`);
      }
    },
  };
};
