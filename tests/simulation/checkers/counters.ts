/**
 * The counts that the server keeps in memory, by queue and by tenant, are those of the keys in the store. The counters of
 * failure groups are those of the tasks.
 */
import { isFailure, queueOf, type Task } from "@codeq/queue";
import { type Counts, noCounts } from "../../../packages/server/src/core/records/counts.ts";
import { allHours } from "../../../packages/server/src/core/records/failure-counts.ts";
import { fingerprintOf } from "../../../packages/server/src/core/records/failure-fingerprint.ts";
import {
  countsKey,
  failureCountsKey,
  parseIndexKey,
} from "../../../packages/server/src/core/store/keys.ts";
import type { MakeChecker } from "./checker.ts";

export const counters: MakeChecker = ({ report }) => ({
  looked: ({ core, keys, tasks, failures }) => {
    const counted = countKeys(keys.keys());
    const expectedFailures = countFailures(tasks.values());
    for (const name of new Set([...expectedFailures.keys(), ...failures.keys()])) {
      const [found = "0 0", expected = "0 0"] = [failures.get(name), expectedFailures.get(name)];
      if (found !== expected) report(`${name} counts ${found}, the tasks are ${expected}`);
    }
    let leased = 0;
    const tenants = new Map<string, { pending: number; leased: number }>();
    for (const queue of core.shard.queues.all()) {
      const name = countsKey(queue.name, queue.tenantId);
      const expected = JSON.stringify(counted.get(name) ?? noCounts());
      const { ready, delayed, held, dead, failed, ...counts } = queue.counts;
      const found = JSON.stringify({ ready, delayed, held, leased: counts.leased, dead, failed });
      if (found !== expected) report(`${name} counts ${found}, the store has ${expected}`);
      leased += counts.leased;
      counted.delete(name);
      const sums = tenants.get(queue.tenantId) ?? { pending: 0, leased: 0 };
      sums.pending += queue.readyTotal + delayed;
      sums.leased += counts.leased;
      tenants.set(queue.tenantId, sums);
    }
    for (const [tenantId, { pending, leased: held }] of core.shard.queues.tenants()) {
      const sums = tenants.get(tenantId) ?? { pending: 0, leased: 0 };
      if (pending !== sums.pending || held !== sums.leased) {
        report(`${tenantId} has ${pending} pending, ${held} leased, not ${JSON.stringify(sums)}`);
      }
    }
    for (const [name, counts] of counted)
      report(`${name} is not counted: ${JSON.stringify(counts)}`);
    if (core.shard.leases.size !== leased) {
      report(`${core.shard.leases.size} leases are timed, ${leased} tasks are leased`);
    }
  },
});

/** Dead letters and failed tasks, by the keys of their counters. */
function countFailures(tasks: Iterable<Task>): Map<string, string> {
  const sums = new Map<string, string>();
  for (const task of tasks) {
    const { tenantId, command, error, place } = task;
    if (!isFailure(task) || !("atMs" in place)) continue;
    const group = fingerprintOf(error);
    for (const hour of [allHours, Math.floor(place.atMs / 3_600_000)]) {
      const name = failureCountsKey({ tenantId, group, queue: queueOf(command), hour });
      const [dead = 0, failed = 0] = (sums.get(name) ?? "0 0").split(" ").map(Number);
      const isDead = place.in === "dead";
      sums.set(name, `${dead + Number(isDead)} ${failed + Number(!isDead)}`);
    }
  }
  return sums;
}

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
    else if (kind === "dlq") counts.dead += 1;
    else counts.failed += 1;
  }
  return counted;
}
