/**
 * Keeps one conversation with the server going: dials, says Hello, and dials again when it is lost,
 * with growing pauses.
 *
 *   resting    nobody wants to talk; leaves by `connect`
 *   dialing    on the way to a Hello that is accepted; leaves by the answer, a fault or the time limit
 *   open       events go both ways; leaves by the end of the conversation
 *   ending     half closed by `renew`; answers still come; leaves by the end of the conversation
 *   pausing    until the next try; leaves by a timer
 *   closed     permanently
 *
 * What was sent in a conversation that ended may have arrived or not; the owner decides what to send
 * again when the next one opens.
 */
import { asCodeqError, CodeqError } from "./codeq-error.ts";
import type { Conversation, ConversationEnd, ConversationListener, Dial } from "./conversation.ts";
import type { Runtime } from "./runtime.ts";

/** Asked for before every Hello, so that it may change. */
export type TokenSource = () => string | Promise<string>;

/** Whether the line dials again by itself or rests until it is asked to. */
export type Next = "again" | "rest";

export interface LineListener<Reply> {
  /** The server has accepted the Hello. */
  opened(): void;
  reply(reply: Reply): void;
  /** There is room to send again. */
  drained(): void;
  /** The conversation broke, or none could be begun. */
  lost(error: CodeqError): Next;
  /** The server does not accept the Hello. */
  refused(error: CodeqError): Next;
}

export interface LineParts<Event, Reply> {
  readonly runtime: Runtime;
  readonly dial: Dial<Event, Reply>;
  readonly token: TokenSource;
  readonly hello: (token: string) => Event;
  readonly isHelloAck: (reply: Reply) => boolean;
  /** Whether something is begun that can only be ended where it was begun. */
  readonly stay: () => boolean;
  readonly listener: LineListener<Reply>;
}

const greetingMsMax = 10_000;
/** How long a conversation may take to end after it was half closed. */
const farewellMsMax = 5_000;

type State = "resting" | "dialing" | "open" | "ending" | "pausing" | "closed";

export class Line<Event, Reply> {
  readonly #parts: LineParts<Event, Reply>;
  #state: State = "resting";
  #conversation: Conversation<Event> | undefined;
  /** Grows with every conversation; what an earlier one says is not listened to. */
  #turn = 0;
  #failures = 0;
  #isAwake = true;
  #cancelTimer: () => void = () => {};
  #onClosed: (() => void) | undefined;
  /** Why there is no conversation; for those who run out of patience. */
  #lastError: CodeqError | undefined;

  constructor(parts: LineParts<Event, Reply>) {
    this.#parts = parts;
  }

  get isOpen(): boolean {
    return this.#state === "open";
  }

  get lastError(): CodeqError | undefined {
    return this.#lastError;
  }

  /** Somebody wants to talk. */
  connect(): void {
    if (this.#state === "resting") void this.#dial();
  }

  /** Only while the line is open. False says that the other side does not keep up. */
  send(event: Event): boolean {
    return this.#state === "open" && (this.#conversation?.send(event) ?? false);
  }

  flush(): void {
    this.#conversation?.flush();
  }

  keepAwake(isOn: boolean): void {
    if (this.#isAwake === isOn) return;
    this.#isAwake = isOn;
    this.#conversation?.keepAwake(isOn);
  }

  /** Ends the conversation in good order, then begins another one. */
  renew(): void {
    if (this.#state !== "open") return;
    this.#finish();
  }

  /** Ends the conversation in good order; resolves when it has ended. */
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

  /** Gives everything up at once. */
  cut(): void {
    this.#shut();
  }

  #finish(): void {
    this.#state = "ending";
    this.#conversation?.finish();
    this.#arm(farewellMsMax, () => this.#ended(lost("the server did not end the conversation")));
  }

  #shut(): void {
    this.#state = "closed";
    this.#turn += 1;
    this.#cancelTimer();
    this.#conversation?.cut();
    this.#conversation = undefined;
    this.#onClosed?.();
  }

  async #dial(): Promise<void> {
    this.#state = "dialing";
    this.#turn += 1;
    const turn = this.#turn;
    this.#arm(greetingMsMax, () => this.#ended(lost("the server does not answer")));
    try {
      const token = await this.#parts.token();
      const listener = this.#listenerOf(turn);
      const stay = this.#parts.stay();
      const conversation = await this.#parts.dial({ token, stay }, listener);
      if (turn !== this.#turn) {
        conversation.cut();
        return;
      }
      this.#conversation = conversation;
      conversation.keepAwake(this.#isAwake);
      conversation.send(this.#parts.hello(token));
      conversation.flush();
    } catch (error) {
      const failure = asCodeqError(error, "unavailable");
      if (turn === this.#turn) this.#ended({ how: howOf(failure), error: failure });
    }
  }

  #listenerOf(turn: number): ConversationListener<Reply> {
    const { listener, isHelloAck } = this.#parts;
    return {
      reply: (reply) => {
        if (turn !== this.#turn) return;
        if (this.#state !== "dialing") listener.reply(reply);
        else if (isHelloAck(reply)) this.#opened();
        else this.#ended(lost("the first message is not the answer to Hello"));
      },
      drained: () => {
        if (turn === this.#turn && this.#state === "open") listener.drained();
      },
      ended: (end) => {
        if (turn === this.#turn) this.#ended(end);
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

  #ended(end: ConversationEnd): void {
    const state = this.#state;
    if (this.#onClosed !== undefined) {
      this.#shut();
      return;
    }
    this.#turn += 1;
    this.#cancelTimer();
    this.#conversation?.cut();
    this.#conversation = undefined;
    this.#lastError = end.error;
    this.#state = "resting";
    const { listener } = this.#parts;
    const isRefused = state === "dialing" && end.how === "refused";
    const next = isRefused ? listener.refused(end.error) : listener.lost(end.error);
    // The listener may have closed the line, or asked for a connection.
    if (next === "rest" || this.#state !== "resting") return;
    if (state === "ending" && end.how === "over") this.connect();
    else this.#pause();
  }

  #pause(): void {
    this.#state = "pausing";
    this.#failures += 1;
    this.#arm(this.#parts.runtime.pauseMs(this.#failures), () => void this.#dial());
  }

  #arm(delayMs: number, run: () => void): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#parts.runtime.clock.after(delayMs, run);
  }
}

function lost(message: string): ConversationEnd {
  return { how: "lost", error: new CodeqError("unavailable", message) };
}

function howOf({ retryable }: CodeqError): "lost" | "refused" {
  return retryable ? "lost" : "refused";
}
