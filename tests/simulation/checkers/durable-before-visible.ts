/**
 * Nothing is told to anybody before it is durable: what an answer or a webhook shows was brought by a
 * record that the log has acknowledged, and a crash afterwards does not take it back, as far as the
 * mode promises.
 */
import type { Task, TaskId } from "@codeq/queue";
import { sightingsOf } from "../exchange.ts";
import { isTerminal, type LedgerRecord, type Version } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

export const durableBeforeVisible: MakeChecker = ({ world, report }) => {
  /** The newest state of each task that somebody has seen, and when. */
  const seen = new Map<TaskId, { record: LedgerRecord; atMs: number }>();
  const see = (id: TaskId, isShown: (task: Task) => boolean, where: string): void => {
    const versions = world.ledger.versions.get(id) ?? [];
    const version = versions.find(({ task }: Version) => task !== undefined && isShown(task));
    if (version?.record.durableMs === undefined) {
      report(`${where} shows ${id} in a state that is not durable`);
      return;
    }
    const { record } = version;
    const before = seen.get(id);
    if (before === undefined || before.record.index < record.index) {
      seen.set(id, { record, atMs: world.nowMs });
    }
  };
  return {
    answered: (exchange) => {
      const where = `the answer to ${exchange.number}`;
      for (const { task, result } of sightingsOf(exchange)) {
        // Of a deleted task, its idempotency key only knows how it ended.
        const isGone = task !== undefined && !world.ledger.tasks.has(task.id);
        const isSame = isGone && isTerminal(task) ? hasSameEnd : isSameState;
        if (task !== undefined) see(task.id, (other) => isSame(task, other), where);
        if (result !== undefined) see(result.taskId, isTerminal, where);
      }
    },
    posted: (task) => see(task.id, isTerminal, "a webhook"),
    recovered: ({ lastIndex, mayHaveLost }) => {
      for (const [id, { record, atMs }] of seen) {
        if (record.index <= lastIndex) continue;
        if (!mayHaveLost(atMs)) report(`${id} was seen in a state that the crash took back`);
        seen.delete(id);
      }
    },
  };
};

function hasSameEnd({ place: a }: Task, { place: b }: Task): boolean {
  return (
    (a.in === "done" && b.in === "done" && a.how === b.how) || (a.in === "dead" && a.in === b.in)
  );
}

/** On a full disk heartbeats move leases in memory, so the end of one may be ahead of the record. */
function isSameState(a: Task, b: Task): boolean {
  if (a.place.in !== b.place.in || a.leaseToken !== b.leaseToken) return false;
  if (a.attempts !== b.attempts || a.handBacks !== b.handBacks) return false;
  return a.place.in === "leased" || JSON.stringify(a.place) === JSON.stringify(b.place);
}
