/**
 * `attempts` counts those that came back, one by one, and never pass the maximum. A task is
 * dead exactly when they are used up. Interrupted hand-backs are free three times in a row, and a task
 * whose worker was gone before it could be sent was not delivered at all.
 */
import type { Task } from "@codeq/queue";
import { violations } from "../../../packages/queue/test/invariants.ts";
import type { LedgerEvent } from "../ledger.ts";
import type { MakeChecker } from "./checker.ts";

/** A claim that came back without being counted. */
interface Uncounted {
  readonly id: string;
  readonly worker: string;
  readonly claimedMs: number;
}

export const attempts: MakeChecker = ({ world, report }) => {
  const uncounted: Uncounted[] = [];
  /** Claims whose callers had gone away when there was something to send. */
  const unsent: {
    readonly worker: string;
    readonly invokedMs: number;
    readonly endedMs: number;
  }[] = [];
  const isUnsent = ({ worker, claimedMs }: Uncounted): boolean =>
    unsent.some(
      (each) => each.worker === worker && each.invokedMs <= claimedMs && claimedMs <= each.endedMs,
    );
  const checkComeback = ({ id, kind }: LedgerEvent, before: Task, after: Task): void => {
    const isHandBack = after.attempts === before.attempts && after.handBacks > before.handBacks;
    if (isHandBack && kind === "comeback") return;
    if (after.place.in === "ready" && isSameCount(before, after)) {
      const claimedMs = world.ledger.versions.get(id)?.at(-1)?.record.atMs ?? 0;
      const worker = before.place.in === "leased" ? before.place.workerId : "";
      uncounted.push({ id, worker, claimedMs });
      return;
    }
    if (after.attempts !== before.attempts + 1) {
      report(`${id} came back and has ${after.attempts} attempts after ${before.attempts}`);
    }
    const isUsedUp = after.attempts >= after.maxAttempts;
    if (isUsedUp !== (kind === "bury")) {
      report(`${id} is ${after.place.in} with ${after.attempts} of ${after.maxAttempts} attempts`);
    }
  };
  return {
    answered: (exchange) => {
      if (exchange.verb !== "claimTasks" || !exchange.isAborted) return;
      const { caller, invokedMs, answeredMs } = exchange;
      unsent.push({ worker: caller.subject, invokedMs, endedMs: answeredMs });
    },
    died: () => {
      uncounted.length = 0;
    },
    stepped: () => {
      for (const each of uncounted) {
        if (!isUnsent(each)) report(`${each.id} came back and was not counted`);
      }
      uncounted.length = 0;
    },
    event: (event) => {
      const { kind, id, before, after } = event;
      if (after === undefined) return;
      for (const violation of violations(after)) report(`${id}: ${violation}`);
      if (before === undefined) {
        if (after.attempts !== 0) report(`${id} was born with ${after.attempts} attempts`);
      } else if (kind === "comeback" || kind === "bury") checkComeback(event, before, after);
      else if (kind === "replay") {
        if (after.attempts !== 0) report(`${id} was replayed with ${after.attempts} attempts`);
      } else if (after.attempts !== before.attempts) {
        report(`${id} has other attempts after a ${kind}`);
      }
    },
  };
};

function isSameCount(a: Task, b: Task): boolean {
  return a.attempts === b.attempts && a.handBacks === b.handBacks;
}
