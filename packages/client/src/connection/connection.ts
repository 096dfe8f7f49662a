/**
 * Keeps one session with the server open: opens a session, sends Hello, and opens another one after a backoff when
 * the session is lost.
 *
 *   resting     no session is wanted; leaves by `connect`
 *   connecting  until the server accepts the Hello; leaves by its answer, an error or the time limit
 *   open        events go both ways; leaves by the end of the session
 *   ending      half closed by `renew`; answers still come; leaves by the end of the session
 *   pausing     until the next attempt; leaves by a timer
 *   closed      permanently
 *
 * What was sent in a session that ended may have arrived or not; the owner decides what to send again in the next
 * session.
 */
import { asCodeqError, CodeqError } from "../codeq-error.ts";
import type { Runtime } from "../runtime.ts";
import type { OpenSession, Session, SessionEnd, SessionListener } from "./session.ts";

/** Called before every Hello, so that the token may change. */
export type TokenSource = () => string | Promise<string>;

/** Whether the connection opens another session by itself, or rests until `connect`. */
export type Next = "again" | "rest";

interface ConnectionListener<Reply> {
  /** The server has accepted the Hello. */
  opened(): void;
  reply(reply: Reply): void;
  /** There is room to send again. */
  drained(): void;
  /** The session was lost, or none could be opened. */
  lost(error: CodeqError): Next;
  /** The server does not accept the Hello. */
  refused(error: CodeqError): Next;
}

interface ConnectionParts<Event, Reply> {
  readonly runtime: Runtime;
  readonly openSession: OpenSession<Event, Reply>;
  readonly token: TokenSource;
  readonly hello: (token: string) => Event;
  readonly isHelloAck: (reply: Reply) => boolean;
  /** Whether the next session has to use the same transport; see `OpenOptions`. */
  readonly stay: () => boolean;
  readonly listener: ConnectionListener<Reply>;
}

const helloMsMax = 10_000;
/** How long a session may take to end after it was half closed. */
const endMsMax = 5_000;

type State = "resting" | "connecting" | "open" | "ending" | "pausing" | "closed";

export class Connection<Event, Reply> {
  readonly #parts: ConnectionParts<Event, Reply>;
  #state: State = "resting";
  #session: Session<Event> | undefined;
  /** Grows with every session, so that events of an earlier one are ignored. */
  #generation = 0;
  #failures = 0;
  #isAwake = true;
  #cancelTimer: () => void = () => {};
  #onClosed: (() => void) | undefined;
  /** Why there is no session; part of timeout errors. */
  #lastError: CodeqError | undefined;

  constructor(parts: ConnectionParts<Event, Reply>) {
    this.#parts = parts;
  }

  get isOpen(): boolean {
    return this.#state === "open";
  }

  get lastError(): CodeqError | undefined {
    return this.#lastError;
  }

  /** Opens a session unless there is one. */
  connect(): void {
    if (this.#state === "resting") void this.#open();
  }

  /** Only while the connection is open. False means back-pressure. */
  send(event: Event): boolean {
    return this.#state === "open" && (this.#session?.send(event) ?? false);
  }

  flush(): void {
    this.#session?.flush();
  }

  keepAwake(isOn: boolean): void {
    if (this.#isAwake === isOn) return;
    this.#isAwake = isOn;
    this.#session?.keepAwake(isOn);
  }

  /** Half closes the session, then opens another one. */
  renew(): void {
    if (this.#state !== "open") return;
    this.#finish();
  }

  /** Half closes the session; resolves when it has ended. */
  async close(): Promise<void> {
    const state = this.#state;
    if (state === "closed") return;
    if (state !== "open" && state !== "ending") {
      this.#shut();
      return;
    }
    const closed = new Promise<void>((resolve) => {
      this.#onClosed = resolve;
    });
    if (state === "open") this.#finish();
    await closed;
  }

  /** Ends the session immediately. */
  cut(): void {
    this.#shut();
  }

  #finish(): void {
    this.#state = "ending";
    this.#session?.finish();
    this.#arm(endMsMax, () => this.#ended(lost("the server did not end the session")));
  }

  #shut(): void {
    this.#state = "closed";
    this.#generation += 1;
    this.#cancelTimer();
    this.#session?.cut();
    this.#session = undefined;
    this.#onClosed?.();
  }

  async #open(): Promise<void> {
    this.#state = "connecting";
    this.#generation += 1;
    const generation = this.#generation;
    this.#arm(helloMsMax, () => this.#ended(lost("the server does not answer")));
    try {
      const token = await this.#parts.token();
      const listener = this.#listenerOf(generation);
      const stay = this.#parts.stay();
      const session = await this.#parts.openSession({ token, stay }, listener);
      if (generation !== this.#generation) {
        session.cut();
        return;
      }
      this.#session = session;
      session.keepAwake(this.#isAwake);
      session.send(this.#parts.hello(token));
      session.flush();
    } catch (error) {
      const failure = asCodeqError(error, "unavailable");
      if (generation === this.#generation) this.#ended({ how: howOf(failure), error: failure });
    }
  }

  #listenerOf(generation: number): SessionListener<Reply> {
    const { listener, isHelloAck } = this.#parts;
    return {
      reply: (reply) => {
        if (generation !== this.#generation) return;
        if (this.#state !== "connecting") listener.reply(reply);
        else if (isHelloAck(reply)) this.#opened();
        else this.#ended(lost("the first message is not the answer to Hello"));
      },
      drained: () => {
        if (generation === this.#generation && this.#state === "open") listener.drained();
      },
      ended: (end) => {
        if (generation === this.#generation) this.#ended(end);
      },
    };
  }

  #opened(): void {
    this.#cancelTimer();
    this.#state = "open";
    this.#failures = 0;
    this.#lastError = undefined;
    this.#parts.listener.opened();
  }

  #ended(end: SessionEnd): void {
    const state = this.#state;
    if (this.#onClosed !== undefined) {
      this.#shut();
      return;
    }
    this.#generation += 1;
    this.#cancelTimer();
    this.#session?.cut();
    this.#session = undefined;
    this.#lastError = end.error;
    this.#state = "resting";
    const { listener } = this.#parts;
    const isRefused = state === "connecting" && end.how === "refused";
    const next = isRefused ? listener.refused(end.error) : listener.lost(end.error);
    // The listener may have closed the connection, or called `connect`.
    if (next === "rest" || this.#state !== "resting") return;
    if (state === "ending" && end.how === "over") this.connect();
    else this.#pause();
  }

  #pause(): void {
    this.#state = "pausing";
    this.#failures += 1;
    this.#arm(this.#parts.runtime.pauseMs(this.#failures), () => void this.#open());
  }

  #arm(delayMs: number, run: () => void): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#parts.runtime.clock.after(delayMs, run);
  }
}

function lost(message: string): SessionEnd {
  return { how: "lost", error: new CodeqError("unavailable", message) };
}

function howOf({ retryable }: CodeqError): "lost" | "refused" {
  return retryable ? "lost" : "refused";
}
