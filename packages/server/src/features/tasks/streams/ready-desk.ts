/**
 * Serves the Readys of one worker stream. While the worker does not read its messages, no Ready is served;
 * while the worker is over its rate limit, Readys wait in order. Tasks that were claimed for a stream that
 * ended before they were sent go back at once.
 */

import type { ClaimedTask } from "../../../core/broker/verbs.ts";
import type { Clock } from "../../../core/clock.ts";
import type { Identity } from "../../../edge/access/identity.ts";
import type { Dispatch } from "../../../edge/dispatch.ts";
import { type Answer, type Call, type Refusal, refusal } from "../../../edge/operation.ts";
import { allowedQueues, claimTasks, handBack } from "../claim-tasks.ts";
import { leaseMsOf } from "../lease-ms.ts";
import { HeldReadys, type ReadyOwner, StandingReady } from "./held-readys.ts";

/** What the desk needs of its stream. */
export interface ReadyStream {
  readonly call: Pick<Call, "identity" | "from">;
  /** Sends the tasks, if the worker can take them now; what never leaves is given to `unsent`. */
  deliver(
    tasks: readonly ClaimedTask[],
    asBatch: boolean,
    unsent: (tasks: readonly ClaimedTask[]) => void,
  ): boolean;
  /** Tells the worker that its Ready is for nothing. */
  refuse(refused: Refusal): void;
}

/** A Ready as it came. */
export interface AskedReady {
  /** Empty for everything the worker may do. */
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly count: number;
}

interface DeskParts {
  readonly dispatch: Dispatch;
  readonly clock: Clock;
  readonly claimBatchMax: number;
  readonly counts: { heldReadys: number };
}

/** What was asked for last, which is nearly always what is asked for next. */
interface Wanted {
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly queues: readonly string[] | undefined;
  readonly leaseMs: number;
  readonly chars: number;
}

/** How long a Ready that could not be served is put off. */
const putOffMs = {
  /** By something that passes, such as a full disk. */
  refused: 500,
  /** Too many wait already, and it is the asking that costs. */
  crowded: 5000,
} as const;

export class ReadyDesk implements ReadyOwner {
  readonly #parts: DeskParts;
  readonly #stream: ReadyStream;
  readonly #held: HeldReadys = new HeldReadys();
  /** Those that ask for work. */
  readonly #asking: Set<StandingReady> = new Set();
  readonly #unsent: (tasks: readonly ClaimedTask[]) => void;
  #wanted: Wanted | undefined;
  #isSuspended = false;
  #isClosed = false;
  #cancelRetry: (() => void) | undefined;
  #retryAtMs = 0;

  constructor(parts: DeskParts, stream: ReadyStream) {
    this.#parts = parts;
    this.#stream = stream;
    this.#unsent = (tasks) => handBack(parts.dispatch.server, tasks);
  }

  /** Takes a Ready; what comes back is why it is for nothing. */
  add(asked: AskedReady): Refusal | undefined {
    const { clock, counts, claimBatchMax } = this.#parts;
    const { identity } = this.#stream.call;
    this.#parts.dispatch.noteUse(identity);
    const wanted = this.#wantedBy(asked, identity);
    if (!wanted.ok) {
      const { name } = claimTasks;
      return this.#parts.dispatch.noteRefusal(name, wanted, this.#stream.call);
    }
    const { queues, leaseMs, chars } = wanted.value;
    if (!this.#held.hasRoomFor(chars)) return tooMany;
    const ready = new StandingReady(
      this,
      {
        tenantId: identity.tenantId,
        workerId: identity.workerId,
        queues,
        leaseMs,
        count: Math.min(asked.count, claimBatchMax),
        waitMs: Number.POSITIVE_INFINITY,
      },
      { startedMs: clock.monotonicMs(), asBatch: asked.count > 1, chars },
    );
    this.#held.count(ready);
    counts.heldReadys += 1;
    this.#held.hold(ready);
    this.#askAll();
    return undefined;
  }

  suspend(): void {
    if (this.#isSuspended) return;
    this.#isSuspended = true;
    this.#callOff();
  }

  resume(): void {
    this.#isSuspended = false;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    this.#askAll();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelRetry?.();
    this.#callOff();
    for (const ready of this.#held.take()) this.#end(ready);
  }

  claimed(ready: StandingReady, tasks: readonly ClaimedTask[]): void {
    if (!this.#asking.delete(ready)) {
      this.#unsent(tasks);
      return;
    }
    // It counts as what it was given, and as one when that is nothing.
    ready.admission?.takeBack(ready.counted - Math.max(tasks.length, 1));
    if (tasks.length > 0) {
      if (!this.#isClosed && this.#stream.deliver(tasks, ready.asBatch, this.#unsent)) {
        const { startedMs } = ready;
        this.#parts.dispatch.noteItems(claimTasks, { ok: 1, refused: 0, startedMs });
        this.#end(ready);
        return;
      }
      this.#unsent(tasks);
    }
    this.#putOff(ready, putOffMs.refused);
  }

  claimRefused(ready: StandingReady): void {
    if (!this.#asking.delete(ready)) return;
    ready.admission?.takeBack(ready.counted - 1);
    this.#putOff(ready, putOffMs.refused);
  }

  /** Every Ready that asks comes back and is held. */
  #callOff(): void {
    const { queue } = this.#parts.dispatch.server;
    for (const ready of [...this.#asking]) queue.cancelClaim(ready);
  }

  #putOff(ready: StandingReady, afterMs: number): void {
    if (this.#isClosed) {
      this.#end(ready);
      return;
    }
    this.#held.hold(ready);
    if (!this.#isSuspended) this.#askAfter(afterMs);
  }

  #end(ready: StandingReady): void {
    this.#held.end(ready);
    this.#parts.counts.heldReadys -= 1;
  }

  /** Lets every Ready that is held ask for work, as far as the rate allows. */
  #askAll(): void {
    if (this.#isSuspended || this.#isClosed || this.#cancelRetry !== undefined) return;
    let waitMs: number | undefined;
    for (const ready of this.#held.take()) {
      if (waitMs === undefined && ready.admission === undefined) waitMs = this.#admit(ready);
      if (ready.admission === undefined) this.#held.hold(ready);
      else this.#ask(ready);
    }
    if (waitMs !== undefined) this.#askAfter(waitMs);
  }

  /** A Ready that comes too early is kept waiting: nobody could answer its slot again. */
  #admit(ready: StandingReady): number | undefined {
    const { identity } = this.#stream.call;
    const admitted = this.#parts.dispatch.admit(claimTasks, identity);
    if (!admitted.ok) return admitted.retryAfterMs ?? 0;
    ready.admission = admitted.value;
    return undefined;
  }

  #ask(ready: StandingReady): void {
    const { dispatch } = this.#parts;
    const { call } = this.#stream;
    if (dispatch.refusalNow() !== undefined) {
      this.#putOff(ready, putOffMs.refused);
      return;
    }
    if (dispatch.server.queue.isCrowded(call.identity.tenantId)) {
      this.#putOff(ready, putOffMs.crowded);
      return;
    }
    ready.counted = ready.admission?.countUpTo(ready.count) ?? ready.count;
    ready.isCancelled = false;
    this.#asking.add(ready);
    try {
      dispatch.server.queue.claim(ready);
    } catch (error) {
      this.#failed(ready, error);
    }
  }

  /** A bug costs this Ready and nothing else: those behind it still ask. */
  #failed(ready: StandingReady, error: unknown): void {
    const { dispatch } = this.#parts;
    const refused = dispatch.asRefusal(claimTasks, error);
    if (!this.#asking.delete(ready)) return;
    dispatch.server.queue.cancelClaim(ready);
    this.#stream.refuse(refused);
    this.#end(ready);
  }

  #wantedBy({ commands, leaseSeconds }: AskedReady, identity: Identity): Answer<Wanted> {
    const last = this.#wanted;
    if (last?.leaseSeconds === leaseSeconds && isSame(last.commands, commands)) {
      return { ok: true, value: last };
    }
    const queues = allowedQueues(identity, commands);
    if (!queues.ok) return queues;
    const leaseMs = leaseMsOf(this.#parts.dispatch.server, leaseSeconds, "leaseSeconds");
    if (!leaseMs.ok) return leaseMs;
    const chars = commands.reduce((sum, command) => sum + command.length, 0);
    const value = { commands, leaseSeconds, queues: queues.value, leaseMs: leaseMs.value, chars };
    this.#wanted = value;
    return { ok: true, value };
  }

  #askAfter(ms: number): void {
    const { clock } = this.#parts;
    const atMs = clock.monotonicMs() + ms;
    if (this.#cancelRetry !== undefined && this.#retryAtMs <= atMs) return;
    this.#cancelRetry?.();
    this.#retryAtMs = atMs;
    this.#cancelRetry = clock.after(ms, () => {
      this.#cancelRetry = undefined;
      this.#askAll();
    });
  }
}

const tooMany: Refusal = refusal("overloaded", "too many outstanding Readys");

function isSame(some: readonly string[], others: readonly string[]): boolean {
  if (some.length !== others.length) return false;
  for (let at = 0; at < some.length; at++) if (some[at] !== others[at]) return false;
  return true;
}
