/**
 * The Readys of one worker stream that have not been served. Each is held until it is served or the
 * stream ends: never dropped, because a client's slot waits for it for ever.
 *
 * While the worker does not read what it is sent, none is served; while it is over its rate, they
 * wait in the order they came.
 */
import { setMaxListeners } from "node:events";
import type { Clock } from "../../clock.ts";
import type { Admission } from "../../operations/operation.ts";

export interface HeldReady {
  /** Empty for everything the worker may do. */
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly count: number;
}

/** What is done with Readys. */
export interface Serving {
  /** Lets a Ready in, once, or says when to ask again. */
  readonly admit: () => Admission | number;
  /** Serves a Ready; false when it has to be held on. */
  readonly serve: (ready: HeldReady, admission: Admission, signal: AbortSignal) => Promise<boolean>;
}

interface Held {
  readonly ready: HeldReady;
  /** Undefined until it was let in. */
  readonly admission: Admission | undefined;
}

const readysMax = 1024;
/** After a refusal that may pass, such as a full disk. */
const retryMs = 500;

export class HeldReadys {
  readonly #serving: Serving;
  readonly #clock: Clock;
  readonly #counts: { heldReadys: number };
  #held: Held[] = [];
  #beingServed = 0;
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

  /** False when there are too many already. */
  hold(ready: HeldReady): boolean {
    if (this.#held.length + this.#beingServed >= readysMax) return false;
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
    void this.#serving.serve(ready, admission, signal).then((isServed) => {
      this.#beingServed -= 1;
      if (isServed || this.#isClosed) {
        this.#counts.heldReadys -= 1;
        return;
      }
      this.#held.push({ ready, admission });
      this.#serveAfter(retryMs);
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

/** Every Ready listens to the one signal of its stream. */
function newController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}
