/** The counts that the server keeps in memory, by queue and by tenant, are those of the keys in the store. */
import { queueOf } from "@codeq/queue";
import { type Counts, noCounts } from "../../../packages/server/src/core/records/counts.ts";
import { countsKey, parseIndexKey } from "../../../packages/server/src/core/store/keys.ts";
import type { MakeChecker } from "./checker.ts";

export const counters: MakeChecker = ({ report }) => ({
  looked: ({ core, keys, tasks }) => {
    const counted = countKeys(keys.keys());
    for (const { tenantId, command, place } of tasks.values()) {
      if (place.in !== "done" || place.how !== "failed") continue;
      const name = countsKey(queueOf(command), tenantId);
      const counts = counted.get(name) ?? noCounts();
      counted.set(name, { ...counts, failed: counts.failed + 1 });
    }
    let leased = 0;
    const tenants = new Map<string, { pending: number; leased: number }>();
    for (const queue of core.broker.queues.all()) {
      const name = countsKey(queue.name, queue.tenantId);
      const expected = JSON.stringify(counted.get(name) ?? noCounts());
      const { ready, delayed, leased: held, dead, failed } = queue.counts;
      const found = JSON.stringify({ ready, delayed, leased: held, dead, failed });
      if (found !== expected) report(`${name} counts ${found}, the store has ${expected}`);
      leased += held;
      counted.delete(name);
      const sums = tenants.get(queue.tenantId) ?? { pending: 0, leased: 0 };
      sums.pending += queue.readyTotal + delayed;
      sums.leased += held;
      tenants.set(queue.tenantId, sums);
    }
    for (const [tenantId, { pending, leased: held }] of core.broker.queues.tenants()) {
      const sums = tenants.get(tenantId) ?? { pending: 0, leased: 0 };
      if (pending !== sums.pending || held !== sums.leased) {
        report(`${tenantId} has ${pending} pending, ${held} leased, not ${JSON.stringify(sums)}`);
      }
    }
    for (const [name, counts] of counted)
      report(`${name} is not counted: ${JSON.stringify(counts)}`);
    if (core.broker.leases.size !== leased) {
      report(`${core.broker.leases.size} leases are timed, ${leased} tasks are leased`);
    }
  },
});

function countKeys(keys: Iterable<string>): Map<string, Counts> {
  const counted = new Map<string, Counts>();
  for (const key of keys) {
    if (!key.startsWith("codeq/q/")) continue;
    const { queue, tenantId, kind, priority } = parseIndexKey(key);
    const name = countsKey(queue, tenantId);
    const counts = counted.get(name) ?? noCounts();
    counted.set(name, counts);
    if (kind === "pending") counts.ready[priority] = (counts.ready[priority] ?? 0) + 1;
    else if (kind === "delayed") counts.delayed += 1;
    else if (kind === "inprog") counts.leased += 1;
    else counts.dead += 1;
  }
  return counted;
}
