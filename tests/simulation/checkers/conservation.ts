/**
 * Every task is in exactly one place, and it goes away only by a rule with a name: retention, when
 * the time of a terminal task is up, or because its tenant's administrator asked for a clean-up or a
 * deletion.
 */
import { expiresMsOf, isFailure } from "@codeq/queue";
import { idOf, parseIndexKey } from "../../../packages/server/src/core/store/keys.ts";
import { isTerminal } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

export const conservation: MakeChecker = ({ world, report }) => {
  const cleanUps: {
    readonly number: number;
    readonly tenant: string;
    readonly beforeMs: number;
  }[] = [];
  /** Ids, or tenants whose failures may all go. */
  const deletions = new Set<string>();
  return {
    invoked: (request) => {
      const { tenant } = request.caller;
      if (request.verb === "deleteTask") deletions.add(`${tenant} ${request.input.id}`);
      if (request.verb === "deleteDeadLetters" && !request.input.isDryRun) {
        const { ids } = request.input;
        if (ids.length === 0) deletions.add(tenant);
        for (const id of ids) deletions.add(`${tenant} ${id}`);
      }
      if (request.verb === "createJob" && request.input.action === "delete") deletions.add(tenant);
      if (request.verb !== "cleanUp") return;
      const { before } = request.input;
      const beforeMs = before === "" ? request.invokedWallMs + 1 : Date.parse(before);
      cleanUps.push({ number: request.number, tenant: request.caller.tenant, beforeMs });
    },
    event: ({ kind, id, before, record }) => {
      if (kind !== "remove") return;
      if (before === undefined) return report(`${id} was removed twice`);
      if (!isTerminal(before)) return report(`${id} was removed while it was ${before.place.in}`);
      const { tenantId } = before;
      if (deletions.has(`${tenantId} ${id}`)) return;
      if (deletions.has(tenantId) && isFailure(before)) return;
      const expiresMs = expiresMsOf(before);
      if (expiresMs === undefined) return report(`${id} was removed but is kept for ever`);
      const byAge = expiresMs <= Math.max(record.wallMs, world.wallMsMax);
      const byCall = cleanUps.some(
        ({ tenant, beforeMs }) => tenant === before.tenantId && expiresMs <= beforeMs,
      );
      if (!byAge && !byCall) report(`${id} was removed by no rule, ${expiresMs} was its time`);
    },
    looked: ({ keys, tasks }) => {
      const places = new Map<string, number>();
      for (const key of keys.keys()) {
        if (!key.startsWith("codeq/q/")) continue;
        const id = idOf(key);
        places.set(id, (places.get(id) ?? 0) + 1);
        const task = tasks.get(id);
        const { tenantId } = parseIndexKey(key);
        if (task?.tenantId !== tenantId) report(`${key} stands for a task that is not there`);
      }
      for (const task of tasks.values()) {
        const expected = task.place.in === "done" && !isFailure(task) ? 0 : 1;
        const found = places.get(task.id) ?? 0;
        if (found !== expected) report(`${task.id} is ${task.place.in} and in ${found} places`);
      }
    },
  };
};
