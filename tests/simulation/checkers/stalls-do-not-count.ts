/**
 * Time in which the server did not run does not count against leases: after a stall no lease ends
 * before the grace of a restart is over, unless its worker lets go of the task or asks for less.
 */
import type { TaskId } from "@codeq/queue";
import { graceMsOf } from "../../../packages/server/src/core/broker/claims/leases.ts";
import { type AnyRequest, touchedBy } from "../exchange.ts";
import type { MakeChecker } from "./checker.ts";

interface Spared {
  readonly worker: string;
  readonly token: number;
  /** The lease does not end before this. */
  untilMs: number;
}

/** Shorter stalls are too common for a grace. */
const stallMsMin = 1300;
/** What is lost where times are cut to whole milliseconds. */
const cutMs = 3;

export const stallsDoNotCount: MakeChecker = ({ world, report }) => {
  const spared = new Map<string, Spared>();
  const unanswered = new Map<number, AnyRequest>();
  const leaseMs = (seconds: number): number =>
    (seconds <= 0 ? world.plan.config.defaultLeaseSeconds : seconds) * 1000;
  const forget = (): void => {
    spared.clear();
    unanswered.clear();
  };
  return {
    stalled: (ms) => {
      if (ms < stallMsMin) return;
      const touched = new Set([...unanswered.values()].flatMap(touchedBy));
      const leases = world.serving?.core.shard.leases;
      for (const { id, place, leaseToken: token } of world.ledger.tasks.values()) {
        if (place.in !== "leased" || touched.has(id)) continue;
        // Decided before the stall, and not in the log yet.
        if (leases !== undefined && leases.get(id) === undefined) continue;
        const untilMs = world.nowMs + graceMsOf(place.leaseMs) - cutMs;
        spared.set(id, { worker: place.workerId, token, untilMs });
      }
    },
    invoked: (request) => {
      unanswered.set(request.number, request);
      for (const id of touchedBy(request)) {
        const each = spared.get(id);
        if (each?.worker !== request.caller.subject) continue;
        const task = world.ledger.tasks.get(id as TaskId);
        // One that is extended ends with the timeout of its task.
        const isLimited = (task?.extras?.timeoutMs ?? 0) !== 0;
        if (request.verb !== "extendLease" || isLimited) spared.delete(id);
        else {
          const asked = world.nowMs + leaseMs(request.input.extendSeconds) - cutMs;
          each.untilMs = Math.min(each.untilMs, asked);
        }
      }
    },
    answered: ({ number }) => {
      unanswered.delete(number);
    },
    event: ({ kind, id, before, after }) => {
      const each = spared.get(id);
      if (each === undefined || kind === "extend") return;
      // Also by a claim, when a full disk has undone the one before.
      spared.delete(id);
      const isCounted = (after?.attempts ?? 0) > (before?.attempts ?? 0);
      if (before?.leaseToken !== each.token || !isCounted) return;
      if (world.nowMs < each.untilMs) {
        report(`after a stall, ${id} was taken back at ${world.nowMs} instead of ${each.untilMs}`);
      }
    },
    died: forget,
    recovered: forget,
  };
};
