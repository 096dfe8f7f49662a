/**
 * First in, first out within a command, tenant and priority, among the tasks that were ready from the
 * start and were never returned. Whoever comes back goes behind everybody who waits.
 */
import type { Task } from "@codeq/queue";
import { bucketOf, type LedgerEvent } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

export const fifo: MakeChecker = ({ world, report }) => {
  const { ledger } = world;
  const isFresh = (task: Task): boolean => {
    const first = ledger.versions.get(task.id)?.[0]?.task;
    if (task.leaseToken !== 0 || task.place.in !== "ready" || first?.place.in !== "ready")
      return false;
    // One that was edited may have had to queue up again.
    return task.place.seq === first.place.seq && bucketOf(task) === bucketOf(first);
  };
  const onClaim = ({ id, before }: LedgerEvent): void => {
    if (before === undefined || !isFresh(before)) return;
    const born = ledger.bornOrder.get(id) ?? 0;
    const bucket = bucketOf(before);
    for (const other of ledger.tasks.values()) {
      if (bucketOf(other) !== bucket || !isFresh(other)) continue;
      if ((ledger.bornOrder.get(other.id) ?? 0) < born) {
        report(`${id} was claimed before ${other.id}, which came first in ${bucket}`);
      }
    }
  };
  const onReady = ({ id, after }: LedgerEvent): void => {
    if (after?.place.in !== "ready") return;
    const bucket = bucketOf(after);
    for (const other of ledger.tasks.values()) {
      if (other.place.in !== "ready" || bucketOf(other) !== bucket) continue;
      if (other.place.seq >= after.place.seq) {
        report(`${id} became ready in front of ${other.id} in ${bucket}`);
      }
    }
  };
  return {
    event: (event) => {
      const { kind, before, after } = event;
      const keepsTurn = before?.place.in === "ready" && isSamePlace(before, after);
      if (kind === "claim") onClaim(event);
      else if (!keepsTurn) onReady(event);
    },
  };
};

function isSamePlace(before: Task, after: Task | undefined): boolean {
  return (
    before.place.in === "ready" &&
    after?.place.in === "ready" &&
    before.place.seq === after.place.seq
  );
}
