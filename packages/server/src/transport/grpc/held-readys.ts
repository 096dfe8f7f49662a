/**
 * The Readys of one worker stream that have not been served. Each is held until it is served or the
 * stream ends: never dropped, because a client's slot waits for it for ever.
 *
 * While the worker does not read what it is sent, none is served; while it is over its rate, they
 * wait in the order they came.
 */
import { setMaxListeners } from "node:events";
import type { Clock } from "../../clock.ts";
import { type MaybePromise, whenKnown } from "../../maybe-promise.ts";
import type { Admission } from "../../operations/operation.ts";

export interface HeldReady {
  /** Empty for everything the worker may do. */
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly count: number;
}

export type ServeOutcome = "served" | "refused" | "crowded";

/** What is done with Readys. */
export interface Serving {
  /** Lets a Ready in, once, or says when to ask again. */
  readonly admit: () => Admission | number;
  /** Serves a Ready, which is held on when it was not. Never rejects. */
  readonly serve: (
    ready: HeldReady,
    admission: Admission,
    signal: AbortSignal,
  ) => MaybePromise<ServeOutcome>;
}

interface Held {
  readonly ready: HeldReady;
  /** Undefined until it was let in. */
  readonly admission: Admission | undefined;
}

const readysMax = 1024;
/** What all of them may ask for together. */
const commandCharsMax = 1024 * 1024;
/** How long a Ready that could not be served is put off. */
const putOffMs = {
  /** By something that passes, such as a full disk. */
  refused: 500,
  /** Too many wait already, and it is the asking that costs. */
  crowded: 5000,
} as const;

export class HeldReadys {
  readonly #serving: Serving;
  readonly #clock: Clock;
  readonly #counts: { heldReadys: number };
  #held: Held[] = [];
  #beingServed = 0;
  #commandChars = 0;
  #isSuspended = false;
  #isClosed = false;
  #serveUntil: AbortController = newController();
  #cancelRetry: (() => void) | undefined;
  #retryAtMs = 0;

  constructor(
    parts: { readonly clock: Clock; readonly counts: { heldReadys: number } },
    serving: Serving,
  ) {
    this.#clock = parts.clock;
    this.#counts = parts.counts;
    this.#serving = serving;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** False when there are too many already, or too much in them. */
  hold(ready: HeldReady): boolean {
    const chars = charsOf(ready);
    if (this.#held.length + this.#beingServed >= readysMax) return false;
    if (this.#commandChars + chars > commandCharsMax) return false;
    this.#commandChars += chars;
    this.#held.push({ ready, admission: undefined });
    this.#counts.heldReadys += 1;
    this.#serveHeld();
    return true;
  }

  suspend(): void {
    if (this.#isSuspended) return;
    this.#isSuspended = true;
    this.#stopServing();
  }

  resume(): void {
    this.#isSuspended = false;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    this.#serveHeld();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#counts.heldReadys -= this.#held.length;
    this.#held = [];
    this.#cancelRetry?.();
    this.#stopServing();
  }

  #stopServing(): void {
    const current = this.#serveUntil;
    this.#serveUntil = newController();
    current.abort();
  }

  #serveHeld(): void {
    if (this.#isSuspended || this.#isClosed || this.#cancelRetry !== undefined) return;
    const { signal } = this.#serveUntil;
    const held = this.#held;
    this.#held = [];
    let waitMs: number | undefined;
    for (const each of held) {
      const admission = each.admission ?? waitMs ?? this.#serving.admit();
      if (typeof admission === "number") {
        waitMs = admission;
        this.#held.push(each);
      } else {
        this.#serve(each.ready, admission, signal);
      }
    }
    if (waitMs !== undefined) this.#serveAfter(waitMs);
  }

  #serve(ready: HeldReady, admission: Admission, signal: AbortSignal): void {
    this.#beingServed += 1;
    void whenKnown(this.#serving.serve(ready, admission, signal), (outcome) => {
      this.#beingServed -= 1;
      if (outcome === "served" || this.#isClosed) {
        this.#counts.heldReadys -= 1;
        this.#commandChars -= charsOf(ready);
        return;
      }
      this.#held.push({ ready, admission });
      this.#serveAfter(putOffMs[outcome]);
    });
  }

  #serveAfter(ms: number): void {
    const atMs = this.#clock.monotonicMs() + ms;
    if (this.#cancelRetry !== undefined && this.#retryAtMs <= atMs) return;
    this.#cancelRetry?.();
    this.#retryAtMs = atMs;
    this.#cancelRetry = this.#clock.after(ms, () => {
      this.#cancelRetry = undefined;
      this.#serveHeld();
    });
  }
}

function charsOf({ commands }: HeldReady): number {
  return commands.reduce((sum, command) => sum + command.length, 0);
}

/** Every Ready listens to the one signal of its stream. */
function newController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}
