/**
 * A claim gets the highest priority over all commands it asked for, and among equals the task that
 * has been ready longest.
 */
import { queueOf, type Task } from "@codeq/queue";
import { pausedKey } from "../../../packages/server/src/core/store/keys.ts";
import type { LedgerEvent } from "../ledger.ts";
import { workers } from "../plan.ts";
import { leasesOf } from "../topic-of.ts";
import type { MakeChecker } from "./checker.ts";

interface Head {
  readonly id: string;
  readonly priority: number;
  readonly seq: number;
}

export const priorityOrder: MakeChecker = ({ world, report }) => {
  /** What came first in each queue when a claim was decided, by task and token. */
  const headsAtClaim = new Map<string, Map<string, Head>>();
  const remember = ({ id, before, after }: LedgerEvent): void => {
    if (before === undefined || after === undefined) return;
    const heads = new Map<string, Head>();
    for (const task of world.ledger.tasks.values()) {
      if (task.tenantId !== before.tenantId || task.place.in !== "ready") continue;
      const head = headOf(task, task.place.seq);
      const queue = queueOf(task.command);
      if (world.ledger.keys.has(pausedKey(queue, task.tenantId))) continue;
      const best = heads.get(queue);
      if (best === undefined || comesBefore(head, best)) heads.set(queue, head);
    }
    // A queue that has all the leases that its topic allows offers nothing.
    for (const queue of heads.keys()) {
      const limit = leasesOf(world, { command: queue, tenantId: before.tenantId });
      const isOwn = queue === queueOf(before.command);
      if (limit !== undefined && limit.leases >= limit.max && !isOwn) heads.delete(queue);
    }
    headsAtClaim.set(`${id} ${after.leaseToken}`, heads);
  };
  return {
    event: (event) => {
      if (event.kind === "claim") remember(event);
    },
    answered: (exchange) => {
      if (exchange.verb !== "claimTasks" || !exchange.answer.ok) return;
      const asked = askedFor(exchange.caller.subject, exchange.input.commands);
      for (const { task } of exchange.answer.value) {
        const key = `${task.id} ${task.leaseToken}`;
        const heads = headsAtClaim.get(key);
        headsAtClaim.delete(key);
        const own = heads?.get(queueOf(task.command));
        if (own?.id !== task.id) {
          report(`${task.id} was claimed and was not the first of its queue`);
          continue;
        }
        for (const [queue, head] of heads ?? []) {
          if (asked !== undefined && !asked.includes(queue)) continue;
          if (comesBefore(head, own))
            report(`${task.id} was claimed before ${head.id} of ${queue}`);
        }
      }
    },
  };
};

/** The queues that a claim looks into; undefined for all. */
function askedFor(subject: string, requested: readonly string[]): readonly string[] | undefined {
  if (requested.length > 0) return requested.map((command) => command.trim().toLowerCase());
  const isPicky = workers.some((each) => each.subject === subject && subject.endsWith("picky"));
  return isPicky ? ["email", "sync.users"] : undefined;
}

function headOf(task: Task, seq: number): Head {
  return { id: task.id, priority: task.priority, seq };
}

function comesBefore(a: Head, b: Head): boolean {
  return a.priority === b.priority ? a.seq < b.seq : a.priority > b.priority;
}
