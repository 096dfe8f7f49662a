/**
 * The Readys of one worker stream that have not been served. Each is held until it is served or the
 * stream ends: never dropped, because a client's slot waits for it for ever.
 *
 * While the worker does not read what it is sent, none is served.
 */
import { setMaxListeners } from "node:events";
import type { Clock } from "../../clock.ts";

export interface HeldReady {
  /** Empty for everything the worker may do. */
  readonly commands: readonly string[];
  readonly leaseSeconds: number;
  readonly count: number;
}

/** Serves a Ready; false when it has to be held on. Never rejects. */
type Serve = (ready: HeldReady, signal: AbortSignal) => Promise<boolean>;

const readysMax = 1024;
/** After a refusal that may pass, such as a full disk. */
const retryMs = 500;

export class HeldReadys {
  readonly #serve: Serve;
  readonly #clock: Clock;
  readonly #counts: { heldReadys: number };
  #held: HeldReady[] = [];
  #serving = 0;
  #isSuspended = false;
  #isClosed = false;
  #serveUntil: AbortController = newController();
  #cancelRetry: (() => void) | undefined;

  constructor(
    parts: { readonly clock: Clock; readonly counts: { heldReadys: number } },
    serve: Serve,
  ) {
    this.#clock = parts.clock;
    this.#counts = parts.counts;
    this.#serve = serve;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** False when there are too many already. */
  hold(ready: HeldReady): boolean {
    if (this.#held.length + this.#serving >= readysMax) return false;
    this.#held.push(ready);
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
    for (const ready of held) {
      this.#serving += 1;
      void this.#serve(ready, signal).then((isServed) => {
        this.#serving -= 1;
        if (!isServed && !this.#isClosed) this.#holdOn(ready);
        else this.#counts.heldReadys -= 1;
      });
    }
  }

  #holdOn(ready: HeldReady): void {
    this.#held.push(ready);
    this.#cancelRetry ??= this.#clock.after(retryMs, () => {
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
