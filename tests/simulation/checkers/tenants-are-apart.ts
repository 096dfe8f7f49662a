/** No tenant sees or changes another's tasks: whatever it asks about them, they do not exist. */
import { errors } from "@codeq/protocol";
import type { TaskId } from "@codeq/queue";
import { namedTasks, sightingsOf } from "../exchange.ts";
import { producerTokens } from "../plan.ts";
import type { MakeChecker } from "./checker.ts";

/**
 * Refusals that say nothing about the task: who asks is not known or asks too much, or the server
 * cannot answer.
 */
const blind = new Set([401, 429, 500, 503, 507]);

export const tenantsAreApart: MakeChecker = ({ report }) => {
  const owners = new Map<TaskId, string>();
  return {
    event: ({ id, before, after }) => {
      const tenantId = (after ?? before)?.tenantId;
      if (tenantId !== undefined) owners.set(id, tenantId);
      if (before !== undefined && after !== undefined && before.tenantId !== after.tenantId) {
        report(`${id} went from ${before.tenantId} to ${after.tenantId}`);
      }
    },
    answered: (exchange) => {
      const { tenant } = exchange.caller;
      for (const { task } of sightingsOf(exchange)) {
        if (task !== undefined && task.tenantId !== tenant) {
          report(`${tenant} got ${task.id} of ${task.tenantId} from ${exchange.verb}`);
        }
      }
      if (exchange.verb === "listQueues" && exchange.answer.ok) {
        if (exchange.answer.value.tenantId !== tenant) report(`${tenant} got foreign queues`);
      }
      for (const { id, answer } of namedTasks(exchange)) {
        const owner = owners.get(id as TaskId);
        if (owner === undefined || owner === tenant) continue;
        if (answer.ok) report(`${tenant} did ${exchange.verb} to ${id} of ${owner}`);
        else if (answer.code !== "missing_scope") {
          const { http } = errors[answer.code];
          if (http !== 404 && !blind.has(http)) {
            report(`${exchange.verb} of a foreign task answers ${answer.code}`);
          }
        }
      }
    },
    looked: ({ core }) => {
      for (const { tenantId } of core.shard.queues.all()) {
        if (!producerTokens.some(({ raw }) => raw["tenantId"] === tenantId)) {
          report(`there is a queue of ${tenantId}`);
        }
      }
    },
  };
};
