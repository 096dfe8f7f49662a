/**
 * At most one worker holds a valid lease on a task. A lease that was granted or extended is valid for
 * the time it was granted for, measured with a clock that never steps, unless its worker lets go of the
 * task. Over a restart, and when a full disk undid decisions, it still is: only a wall clock that was
 * set forward meanwhile shortens it, as does an extension that a full disk kept from the log, and not to
 * less than the grace.
 */
import type { AnyExchange, AnyRequest } from "../exchange.ts";
import { touchedBy } from "../exchange.ts";
import type { MakeChecker } from "./checker.ts";

interface Hold {
  readonly worker: string;
  readonly token: number;
  /** However it is extended, the timeout of the task ends it; no earlier than this. */
  readonly endMs: number;
  /** The task is this worker's at least up to here. */
  untilMs: number;
  /** As far as the log has it. */
  durableUntilMs: number;
  /** How far the wall clock was ahead of the other one when it was written. */
  aheadMs: number;
}

/** The least a recovered lease has left. */
const graceMs = 5000;
/** What is lost where times are cut to whole milliseconds. */
const cutMs = 3;

export const oneLease: MakeChecker = ({ world, report }) => {
  const holds = new Map<string, Hold>();
  /** When each worker last spoke for a task, by task and worker. */
  const spokeMs = new Map<string, number>();
  let rolledBackMs: number | undefined;
  /** Since when leases are being read from the log, and how far the wall clock was ahead meanwhile. */
  let rebuild: { readonly fromMs: number; aheadMsMax: number } | undefined;
  const aheadMs = (): number => world.wallMs - world.nowMs;
  const heedRollback = (): void => {
    const ms = world.life?.rolledBackMs;
    if (ms !== undefined && ms !== rolledBackMs) rebuild = { fromMs: ms, aheadMsMax: aheadMs() };
    rolledBackMs = ms;
    if (rebuild === undefined) return;
    rebuild.aheadMsMax = Math.max(rebuild.aheadMsMax, aheadMs());
    if (world.serving?.core.store.state === "open") endRebuild(rebuild);
  };
  const endRebuild = ({ fromMs, aheadMsMax }: { fromMs: number; aheadMsMax: number }): void => {
    rebuild = undefined;
    for (const hold of holds.values()) {
      const steppedMs = Math.max(aheadMsMax - hold.aheadMs, 0);
      const keptMs = hold.durableUntilMs - steppedMs - cutMs;
      hold.untilMs = Math.min(hold.untilMs, Math.max(keptMs, fromMs + graceMs));
    }
  };
  const heed = (request: AnyRequest): void => {
    for (const id of touchedBy(request)) {
      spokeMs.set(`${id} ${request.caller.subject}`, request.invokedMs);
      const hold = holds.get(id);
      if (hold === undefined || hold.worker !== request.caller.subject) continue;
      // What is said after the end of a lease may be taken for the next one of the same worker.
      if (hold.untilMs <= request.invokedMs) holds.delete(id);
      else if (request.verb === "extendLease") {
        const ms = leaseMs(request.input.extendSeconds);
        hold.untilMs = Math.min(hold.untilMs, request.invokedMs + ms);
        hold.durableUntilMs = Math.min(hold.durableUntilMs, request.invokedMs + ms);
      } else holds.delete(id);
    }
  };
  const leaseMs = (seconds: number): number =>
    (seconds <= 0 ? world.plan.config.defaultLeaseSeconds : seconds) * 1000;
  /** When it was asked for or when it was answered, whichever leaves the lease less after a step. */
  const aheadAt = ({ invokedWallMs, invokedMs }: AnyExchange): number =>
    Math.min(invokedWallMs - invokedMs, aheadMs());
  return {
    invoked: heed,
    event: ({ kind, id, after, record }) => {
      heedRollback();
      const hold = holds.get(id);
      if (kind !== "claim" || hold === undefined || after?.place.in !== "leased") return;
      if (record.atMs < hold.untilMs) {
        const { worker, token, untilMs } = hold;
        report(
          `${id} went to ${after.place.workerId} (${after.leaseToken}) while ${worker} (${token}) holds it until ${untilMs}`,
        );
      }
      holds.delete(id);
    },
    answered: (exchange) => {
      if (!exchange.answer.ok) return;
      if (exchange.verb === "extendLease") {
        const hold = holds.get(exchange.input.id);
        if (hold?.worker !== exchange.caller.subject) return;
        const ms = leaseMs(exchange.input.extendSeconds);
        hold.untilMs = Math.min(exchange.invokedMs + ms, hold.endMs);
        if (!world.hasBeenOpenSince(exchange.invokedMs)) return;
        hold.durableUntilMs = hold.untilMs;
        hold.aheadMs = aheadAt(exchange);
      }
      // Nobody is there to hold what a caller that went away was given.
      if (exchange.verb !== "claimTasks" || exchange.isAborted) return;
      for (const { task } of exchange.answer.value) {
        if (world.ledger.tasks.get(task.id)?.leaseToken !== task.leaseToken) continue;
        // It may have let go of the task before it knew that it had it.
        const spoke = spokeMs.get(`${task.id} ${exchange.caller.subject}`) ?? 0;
        if (spoke >= exchange.invokedMs) continue;
        const endMs = exchange.invokedMs + (task.extras?.timeoutMs || Number.POSITIVE_INFINITY);
        const ms = leaseMs(exchange.input.leaseSeconds);
        const untilMs = Math.min(exchange.invokedMs + ms, endMs);
        holds.set(task.id, {
          endMs,
          worker: exchange.caller.subject,
          token: task.leaseToken,
          untilMs,
          durableUntilMs: untilMs,
          aheadMs: aheadAt(exchange),
        });
      }
    },
    recovered: ({ lost }) => {
      for (const { events } of lost) for (const { id } of events) holds.delete(id);
      rebuild = { fromMs: world.life?.bootMs ?? world.nowMs, aheadMsMax: aheadMs() };
    },
    started: heedRollback,
    stepped: heedRollback,
  };
};
