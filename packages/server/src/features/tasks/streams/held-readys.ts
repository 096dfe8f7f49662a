/**
 * A Ready of a worker stream: the claim, its place in line and who hears the answer, in one object. It
 * is kept until it is served or the stream ends: never dropped, because a client's slot waits for it
 * for ever. While it does not ask for work it is held: for the rate limit, for a worker that reads
 * again, or for what refused it to pass.
 */
import { Claim, type ClaimRequest } from "../../../core/broker/claim.ts";
import type { ClaimedTask, Refused } from "../../../core/broker/verbs.ts";
import type { Admission } from "../../../edge/operation.ts";

/** Who asked. */
export interface ReadyOwner {
  /** Tasks became durable for it in this turn; none when it was called off. */
  claimed(ready: StandingReady, tasks: readonly ClaimedTask[]): void;
  claimRefused(ready: StandingReady, why: Refused): void;
}

export class StandingReady extends Claim {
  /** When it came, on the monotonic clock. */
  readonly startedMs: number;
  /** Whether its tasks are sent as a list. */
  readonly asBatch: boolean;
  /** How much text it asked with. */
  readonly chars: number;
  /** Undefined until it was let in. */
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
/** What all of them may ask for together. */
const commandCharsMax = 1024 * 1024;

/** Those of one stream that wait for something else than work; all of them are counted. */
export class HeldReadys {
  #held: StandingReady[] = [];
  #size = 0;
  #chars = 0;

  /** Whether there is room for one more that asks with so much text. */
  hasRoomFor(chars: number): boolean {
    return this.#size < readysMax && this.#chars + chars <= commandCharsMax;
  }

  /** A new one came. */
  count(ready: StandingReady): void {
    this.#size += 1;
    this.#chars += ready.chars;
  }

  /** One was served, or nobody waits for it any more. */
  end(ready: StandingReady): void {
    this.#size -= 1;
    this.#chars -= ready.chars;
  }

  hold(ready: StandingReady): void {
    this.#held.push(ready);
  }

  get isEmpty(): boolean {
    return this.#held.length === 0;
  }

  /** Hands out all that are held, in their order. */
  take(): readonly StandingReady[] {
    const held = this.#held;
    if (held.length > 0) this.#held = [];
    return held;
  }
}
