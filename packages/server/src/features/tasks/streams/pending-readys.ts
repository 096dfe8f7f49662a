/**
 * Serves the Readys of one worker stream. While the worker does not read its messages, no Ready is served;
 * while the worker is over its rate limit, Readys wait in order. Tasks that were claimed for a stream that
 * ended before they were sent go back immediately.
 *
 * A Ready is kept until it is served or the stream ends, because the client's slot waits for it without a time
 * limit. A Ready that does not ask for work waits: for the rate limit, for the worker to read again, or for
 * the end of what refused it, such as a full disk.
 */

import { Claim, type ClaimRequest } from "../../../core/broker/claims/claim.ts";
import type { ClaimedTask, Refused } from "../../../core/broker/verbs.ts";
import type { Clock } from "../../../core/clock.ts";
import type { Identity } from "../../../edge/access/identity.ts";
import type { Dispatch } from "../../../edge/dispatch.ts";
import {
  type Admission,
  type Answer,
  type Call,
  type Refusal,
  refusal,
} from "../../../edge/operation.ts";
import { allowedQueues, claimTasks, handBack } from "../claim-tasks.ts";
import { leaseMsOf } from "../extend-lease.ts";

/** The stream of the Readys. */
export interface ReadyStream {
  readonly call: Pick<Call, "identity" | "from">;
  /** Sends the tasks; false when the worker cannot take them now. Tasks that were not sent go to `unsent`. */
  deliver(
    tasks: readonly ClaimedTask[],
    asBatch: boolean,
    unsent: (tasks: readonly ClaimedTask[]) => void,
  ): boolean;
  /** Refuses a Ready of the worker. */
  refuse(refused: Refusal): void;
}

export interface ReadyRequest {
  /** Empty for all queues of the worker. */
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly count: number;
}

interface ReadyParts {
  readonly dispatch: Dispatch;
  readonly clock: Clock;
  readonly claimBatchMax: number;
  readonly counts: { pendingReadys: number };
}

/** The last request, cached because the next one is nearly always the same. */
interface Wanted {
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly queues: readonly string[] | undefined;
  readonly leaseMs: number;
  readonly chars: number;
}

/** When a Ready that could not be served asks again. */
const retryMs = {
  /** After a temporary refusal, for example while the disk is full. */
  refused: 500,
  /** While too many claims wait: asking again is what costs. */
  crowded: 5000,
} as const;

export class PendingReadys implements ReadyOwner {
  readonly #parts: ReadyParts;
  readonly #stream: ReadyStream;
  readonly #waiting: WaitingReadys = new WaitingReadys();
  /** Readys that wait for tasks in the broker. */
  readonly #asking: Set<PendingReady> = new Set();
  readonly #unsent: (tasks: readonly ClaimedTask[]) => void;
  #wanted: Wanted | undefined;
  #isSuspended = false;
  #isClosed = false;
  #cancelRetry: (() => void) | undefined;
  #retryAtMs = 0;

  constructor(parts: ReadyParts, stream: ReadyStream) {
    this.#parts = parts;
    this.#stream = stream;
    this.#unsent = (tasks) => handBack(parts.dispatch.server, tasks);
  }

  /** Adds a Ready; gives the reason when it is refused. */
  add(asked: ReadyRequest): Refusal | undefined {
    const { clock, counts, claimBatchMax } = this.#parts;
    const { identity } = this.#stream.call;
    this.#parts.dispatch.noteUse(identity);
    const wanted = this.#wantedBy(asked, identity);
    if (!wanted.ok) {
      const { name } = claimTasks;
      return this.#parts.dispatch.noteRefusal(name, wanted, this.#stream.call);
    }
    const { queues, leaseMs, chars } = wanted.value;
    if (!this.#waiting.hasRoomFor(chars)) return tooMany;
    const ready = new PendingReady(
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
    this.#waiting.count(ready);
    counts.pendingReadys += 1;
    this.#waiting.hold(ready);
    this.#askAll();
    return undefined;
  }

  suspend(): void {
    if (this.#isSuspended) return;
    this.#isSuspended = true;
    this.#cancelAll();
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
    this.#cancelAll();
    for (const ready of this.#waiting.take()) this.#end(ready);
  }

  claimed(ready: PendingReady, tasks: readonly ClaimedTask[]): void {
    if (!this.#asking.delete(ready)) {
      this.#unsent(tasks);
      return;
    }
    // A Ready counts as the tasks it got, and as one without tasks.
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
    this.#retryLater(ready, retryMs.refused);
  }

  claimRefused(ready: PendingReady): void {
    if (!this.#asking.delete(ready)) return;
    ready.admission?.takeBack(ready.counted - 1);
    this.#retryLater(ready, retryMs.refused);
  }

  /** Cancels all claims; their Readys wait again. */
  #cancelAll(): void {
    const { broker } = this.#parts.dispatch.server;
    for (const ready of [...this.#asking]) broker.cancelClaim(ready);
  }

  #retryLater(ready: PendingReady, afterMs: number): void {
    if (this.#isClosed) {
      this.#end(ready);
      return;
    }
    this.#waiting.hold(ready);
    if (!this.#isSuspended) this.#askAfter(afterMs);
  }

  #end(ready: PendingReady): void {
    this.#waiting.end(ready);
    this.#parts.counts.pendingReadys -= 1;
  }

  /** Lets all waiting Readys ask for work, as far as the rate limit allows. */
  #askAll(): void {
    if (this.#isSuspended || this.#isClosed || this.#cancelRetry !== undefined) return;
    let waitMs: number | undefined;
    for (const ready of this.#waiting.take()) {
      if (waitMs === undefined && ready.admission === undefined) waitMs = this.#admit(ready);
      if (ready.admission === undefined) this.#waiting.hold(ready);
      else this.#ask(ready);
    }
    if (waitMs !== undefined) this.#askAfter(waitMs);
  }

  /** The time to wait when the rate limit refuses. The Ready is kept, because a refusal would block its slot. */
  #admit(ready: PendingReady): number | undefined {
    const { identity } = this.#stream.call;
    const admitted = this.#parts.dispatch.admit(claimTasks, identity);
    if (!admitted.ok) return admitted.retryAfterMs ?? 0;
    ready.admission = admitted.value;
    return undefined;
  }

  #ask(ready: PendingReady): void {
    const { dispatch } = this.#parts;
    const { call } = this.#stream;
    if (dispatch.refusalNow() !== undefined) {
      this.#retryLater(ready, retryMs.refused);
      return;
    }
    if (dispatch.server.broker.isCrowded(call.identity.tenantId)) {
      this.#retryLater(ready, retryMs.crowded);
      return;
    }
    ready.counted = ready.admission?.countUpTo(ready.count) ?? ready.count;
    ready.isCancelled = false;
    this.#asking.add(ready);
    try {
      dispatch.server.broker.claim(ready);
    } catch (error) {
      this.#failed(ready, error);
    }
  }

  /** A bug ends this Ready only; later ones still ask. */
  #failed(ready: PendingReady, error: unknown): void {
    const { dispatch } = this.#parts;
    const refused = dispatch.asRefusal(claimTasks, error);
    if (!this.#asking.delete(ready)) return;
    dispatch.server.broker.cancelClaim(ready);
    this.#stream.refuse(refused);
    this.#end(ready);
  }

  #wantedBy({ commands, leaseSeconds }: ReadyRequest, identity: Identity): Answer<Wanted> {
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

export interface ReadyOwner {
  /** The leases of the tasks are durable; no tasks when the claim was cancelled. */
  claimed(ready: PendingReady, tasks: readonly ClaimedTask[]): void;
  claimRefused(ready: PendingReady, why: Refused): void;
}

/** A Ready and its claim, in one object. */
export class PendingReady extends Claim {
  /** The time of arrival, on the monotonic clock. */
  readonly startedMs: number;
  /** Whether the tasks are sent as one batch. */
  readonly asBatch: boolean;
  /** Characters of its commands. */
  readonly chars: number;
  /** Undefined until the rate limit admits it. */
  admission: Admission | undefined = undefined;
  readonly #owner: ReadyOwner;

  constructor(
    owner: ReadyOwner,
    request: ClaimRequest,
    of: { readonly startedMs: number; readonly asBatch: boolean; readonly chars: number },
  ) {
    super(request);
    this.#owner = owner;
    this.startedMs = of.startedMs;
    this.asBatch = of.asBatch;
    this.chars = of.chars;
  }

  durable(tasks: readonly ClaimedTask[]): void {
    this.#owner.claimed(this, tasks);
  }

  refused(why: Refused): void {
    this.#owner.claimRefused(this, why);
  }
}

const readysMax = 1024;
/** Characters of all commands together. */
const commandCharsMax = 1024 * 1024;

/** The Readys of one stream that do not ask for work; counts all its Readys. */
export class WaitingReadys {
  #held: PendingReady[] = [];
  #size = 0;
  #chars = 0;

  /** Whether one more Ready with so many characters fits. */
  hasRoomFor(chars: number): boolean {
    return this.#size < readysMax && this.#chars + chars <= commandCharsMax;
  }

  /** Counts a new Ready. */
  count(ready: PendingReady): void {
    this.#size += 1;
    this.#chars += ready.chars;
  }

  /** The Ready was served, or its stream has ended. */
  end(ready: PendingReady): void {
    this.#size -= 1;
    this.#chars -= ready.chars;
  }

  hold(ready: PendingReady): void {
    this.#held.push(ready);
  }

  get isEmpty(): boolean {
    return this.#held.length === 0;
  }

  /** Removes and returns all waiting Readys, in order. */
  take(): readonly PendingReady[] {
    const held = this.#held;
    if (held.length > 0) this.#held = [];
    return held;
  }
}
