/**
 * One call of this server, between its handler and HTTP/2.
 *
 * States: open, ending (a status was chosen; bytes are still going out), closed.
 * - open -> ending: the handler calls `end`; or the call fails (deadline, damaged input, a handler
 *   that throws, shutdown), and `onClosed` notifies the handler immediately.
 * - open -> closed: the client cancels, the connection breaks, or the client reads nothing while the
 *   handler sends beyond the limit or for too long.
 * - ending -> closed: everything was sent, or the client did not read it in time.
 *
 * All memory is bounded. Input: the server stops reading a call that is paused or whose client does not read
 * the answers, and HTTP/2 flow control stops the client. Output: `pendingBytes` counts it, and `send` returns
 * false when there is too much.
 */
import { constants, type ServerHttp2Stream } from "node:http2";
import {
  FrameReader,
  SendQueue,
  type SendTurn,
  WireError,
  type WireWrite,
  type WireWriter,
} from "@codeq/protocol/wire";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Input } from "../in-flight.ts";
import type { CloseReason, GrpcStream, Metadata, StreamLimits } from "./grpc-stream.ts";
import { type GrpcEnd, type GrpcStatus, trailersOf } from "./status.ts";

export interface StreamParts {
  readonly stream: ServerHttp2Stream;
  readonly metadata: Metadata;
  readonly path: string;
  readonly peer: string;
  /** Keeps the connection open for this call; returns how to release it. */
  readonly hold: () => () => void;
  readonly timeoutMs: number | undefined;
  /** Whether the connection is still open. */
  readonly isConnected: () => boolean;
  /** Called with the size of each chunk that was read. */
  readonly onRead: (bytes: number) => void;
  /** Called until the caller is authenticated: the memory of input that was not handed over. */
  readonly onHeld: (bytes: number) => void;
  readonly limits: StreamLimits;
  readonly turn: SendTurn;
  readonly anonymousTurns: AnonymousTurns;
  readonly clock: Clock;
  readonly logger: Logger;
}

const nothing = (): void => {};
const append = (bytes: Uint8Array, writer: WireWriter): void => writer.append(bytes);

export class ServerStream implements GrpcStream {
  readonly path: string;
  readonly metadata: Metadata;
  readonly peer: string;
  readonly deadlineMs: number | undefined;
  readonly #parts: StreamParts;
  readonly #stream: ServerHttp2Stream;
  readonly #frames: FrameReader;
  readonly #share: InputShare;
  readonly #queue: SendQueue;
  #state: "open" | "ending" | "closed" = "open";
  #end: GrpcEnd = { status: "OK", message: "" };
  /** Set before the call is closed when the server ends it. */
  #reason: CloseReason | undefined;
  #isPaused = false;
  #isFull = false;
  #isResting = false;
  #isDelivering = false;
  #isAuthenticated = false;
  #isInputOver = false;
  #isHalfCloseDelivered = false;
  #cancelTimer: () => void = nothing;
  #cancelStall: () => void = nothing;
  #onMessage: ((bytes: Buffer) => void) | undefined;
  #onHalfClose: () => void = nothing;
  #onClosed: (reason: CloseReason) => void = nothing;
  #onDrain: () => void = nothing;
  #onGoingAway: () => void = nothing;
  #isCloseNotified = false;
  #release: () => void = nothing;
  /** Counts the memory of what an authenticated caller sends. */
  #input: Input | undefined;

  constructor(parts: StreamParts) {
    const { stream, metadata, limits, turn, clock, timeoutMs } = parts;
    this.#parts = parts;
    this.#stream = stream;
    this.path = parts.path;
    this.peer = parts.peer;
    this.metadata = metadata;
    this.#frames = new FrameReader({
      messageBytesMax: limits.unauthenticatedMessageBytesMax,
      encoding: metadata.encoding,
    });
    this.#share = new InputShare(turn);
    this.#queue = new SendQueue({
      turn,
      sink: stream,
      messageBytesMax: limits.messageBytesMax,
      onFirst: () => this.#respond(),
      onSent: () => this.#sent(),
    });
    stream.on("error", (error) => {
      parts.logger.debug("gRPC call broke", { path: parts.path, peer: parts.peer, error });
    });
    stream.once("close", () => this.#closed());
    if (timeoutMs !== undefined) {
      this.deadlineMs = clock.monotonicMs() + timeoutMs;
      this.#cancelTimer = clock.after(timeoutMs, () => {
        const end: GrpcEnd = { status: "DEADLINE_EXCEEDED", message: "context deadline exceeded" };
        this.fail(end, "deadline");
      });
    }
  }

  get isAuthenticated(): boolean {
    return this.#isAuthenticated;
  }

  get pendingBytes(): number {
    return this.#state === "closed" ? 0 : this.#queue.pendingBytes;
  }

  /** Bytes that have arrived and wait for the handler. */
  get unreadBytes(): number {
    return this.#stream.readableLength;
  }

  onMessage(run: (bytes: Buffer) => void): void {
    const isFirst = this.#onMessage === undefined;
    this.#onMessage = run;
    if (!isFirst) return;
    this.#stream.on("data", (chunk: Buffer) => {
      this.#parts.onRead(chunk.length);
      if (!this.#share.countChunk(chunk.length) && this.#state !== "closed") {
        this.#reset("bad_input");
        return;
      }
      // An ended call is read only so that the connection is not blocked.
      if (this.#state !== "open") return;
      this.#frames.push(chunk);
      this.#deliver();
      this.#countHeld();
    });
    this.#stream.once("end", () => {
      this.#isInputOver = true;
      this.#deliver();
    });
    this.#setFlow();
  }

  onHalfClose(run: () => void): void {
    this.#onHalfClose = run;
  }

  onClosed(run: (reason: CloseReason) => void): void {
    this.#onClosed = run;
  }

  onDrain(run: () => void): void {
    this.#onDrain = run;
  }

  onGoingAway(run: () => void): void {
    this.#onGoingAway = run;
  }

  send(bytes: Uint8Array): boolean {
    return this.sendMessage(append, bytes);
  }

  sendMessage<T>(write: WireWrite<T>, message: T, unsent?: () => void): boolean {
    if (this.#state !== "open") {
      unsent?.();
      return false;
    }
    const { messageBytesMax, sendBytesMax } = this.#parts.limits;
    const size = this.#queue.add(write, message, unsent);
    if (size > messageBytesMax) {
      const text = `trying to send message larger than max (${size} vs. ${messageBytesMax})`;
      this.fail({ status: "RESOURCE_EXHAUSTED", message: text }, "failed");
      return false;
    }
    const pending = this.#queue.pendingBytes;
    if (pending <= this.#sendBytesHigh) return true;
    if (pending > sendBytesMax) {
      this.#reset("slow_reader");
      return false;
    }
    if (!this.#isFull) {
      this.#isFull = true;
      this.#setFlow();
      this.#expectProgress();
    }
    return false;
  }

  get #sendBytesHigh(): number {
    const { sendBytesHigh, sendBytesHighCrowded, sendBytesTotal } = this.#parts.limits;
    const isCrowded = this.#parts.turn.pendingBytes > sendBytesTotal;
    return isCrowded || !this.#isAuthenticated ? sendBytesHighCrowded : sendBytesHigh;
  }

  #expectProgress(): void {
    const { clock, limits } = this.#parts;
    this.#cancelStall();
    this.#cancelStall = clock.after(limits.stallMs, () => this.#reset("slow_reader"));
  }

  pause(): void {
    this.#isPaused = true;
    this.#setFlow();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#setFlow();
    // Deferred, because the handler may be in the middle of something.
    queueMicrotask(() => this.#deliver());
  }

  end(status: GrpcStatus, message: string = ""): void {
    this.#finish({ status, message }, "ended");
  }

  readonly cutForRoom = (): void => {
    const message =
      "the server has no memory left for this message, or for your tenant's; send it again";
    this.fail({ status: "UNAVAILABLE", message }, "crowded");
  };

  holdConnection(input: Input): void {
    if (this.#state === "closed" || this.#isAuthenticated) return;
    this.#isAuthenticated = true;
    this.#input = input;
    this.#frames.messageBytesMax = this.#parts.limits.messageBytesMax;
    this.#release = this.#parts.hold();
    this.#setFlow();
  }

  /** Ends the call for a reason outside the handler, and notifies the handler. */
  fail(end: GrpcEnd, reason: CloseReason): void {
    if (this.#state !== "open") return;
    this.#finish(end, reason);
    this.#notifyClosed(reason);
  }

  goAway(): void {
    if (this.#state === "open") this.#guard(this.#onGoingAway, undefined);
  }

  /** Gives the call to its handler. */
  start(handler: (stream: GrpcStream) => void): void {
    this.#guard(handler, this);
  }

  /** Runs code of the handler; an error ends only this call. */
  #guard<T>(run: (argument: T) => void, argument: T): void {
    try {
      run(argument);
    } catch (error) {
      const { logger } = this.#parts;
      if (error instanceof WireError) {
        const text = `grpc: failed to unmarshal the received message: ${error.message}`;
        this.fail({ status: "INTERNAL", message: text }, "bad_input");
        return;
      }
      logger.error("gRPC handler failed", { path: this.path, peer: this.peer, error });
      this.fail({ status: "INTERNAL", message: "internal error" }, "failed");
    }
  }

  /** Hands over received messages while the handler accepts input. */
  #deliver(): void {
    const handle = this.#onMessage;
    if (this.#isDelivering || handle === undefined) return;
    this.#isDelivering = true;
    while (this.#wantsInput()) {
      const message = this.#frames.next();
      if (message === undefined) break;
      this.#guard(handle, message);
      if (!this.#share.countMessage(this.#isAuthenticated)) this.#rest();
    }
    this.#isDelivering = false;
    if (this.#wantsInput()) this.#checkInput();
  }

  /** A call that used its share of this turn continues in the next turn, after the others. */
  #rest(): void {
    this.#isResting = true;
    this.#setFlow();
    const goOn = (): void => {
      this.#isResting = false;
      this.#setFlow();
      this.#deliver();
    };
    if (this.#isAuthenticated) setImmediate(goOn);
    else this.#parts.anonymousTurns.take(goOn);
  }

  /** Checks the input after all whole messages were handed over. */
  #checkInput(): void {
    const { fault } = this.#frames;
    if (fault !== undefined) {
      this.fail(fault, "bad_input");
    } else if (this.#isInputOver && this.#frames.isInsideMessage) {
      this.fail({ status: "INTERNAL", message: "the call ends inside a message" }, "bad_input");
    } else if (this.#isInputOver && !this.#isHalfCloseDelivered) {
      this.#isHalfCloseDelivered = true;
      this.#guard(this.#onHalfClose, undefined);
    }
  }

  #wantsInput(): boolean {
    return this.#state === "open" && !this.#isPaused && !this.#isFull && !this.#isResting;
  }

  /** Starts or stops reading; the flow control window of the call stops the client. */
  #setFlow(): void {
    if (this.#onMessage === undefined || this.#stream.destroyed) return;
    // An ended call is still read, and the data dropped, so that the connection is not blocked.
    if (this.#wantsInput() || this.#state !== "open" || this.#readsAhead()) this.#stream.resume();
    else this.#stream.pause();
  }

  /** While the token of a Hello is checked, input is read into memory that is counted. */
  #readsAhead(): boolean {
    if (this.#isAuthenticated || !this.#isPaused) return false;
    return this.#frames.unreadBytes < this.#parts.limits.unauthenticatedMessageBytesMax;
  }

  /** Counts the input of an authenticated caller, with what HTTP/2 has received for a call that is not read. */
  countUnread(): void {
    if (this.#state === "open") this.#input?.hold(this.#frames.heldBytes + this.unreadBytes);
  }

  #countHeld(): void {
    const { limits, onHeld } = this.#parts;
    if (this.#isAuthenticated) {
      if (this.#state === "open") this.#input?.hold(this.#frames.heldBytes);
      return;
    }
    this.#setFlow();
    const { heldBytes } = this.#frames;
    // The client may fill the window of a call that is not read.
    onHeld(this.#stream.isPaused() ? heldBytes + limits.unauthenticatedWindowBytes : heldBytes);
  }

  #sent(): void {
    if (!this.#isFull || this.#state !== "open") return;
    if (this.#queue.pendingBytes > this.#sendBytesHigh / 2) {
      this.#expectProgress();
      return;
    }
    this.#cancelStall();
    this.#isFull = false;
    this.#setFlow();
    this.#guard(this.#onDrain, undefined);
    this.#deliver();
  }

  #respond(): void {
    if (this.#stream.headersSent || this.#stream.destroyed) return;
    this.#stream.once("wantTrailers", () => {
      this.#stream.sendTrailers(trailersOf(this.#end));
      stopClientAfterEnd(this.#stream, this.#parts.clock);
    });
    this.#stream.respond(responseHeaders, { waitForTrailers: true });
  }

  #finish(end: GrpcEnd, reason: CloseReason): void {
    if (this.#state !== "open") return;
    const { clock, limits } = this.#parts;
    this.#cancelTimer();
    this.#cancelStall();
    this.#end = end;
    this.#reason = reason;
    this.#queue.flush();
    this.#state = "ending";
    this.#dropInput();
    this.#isPaused = false;
    if (this.#stream.destroyed || this.#stream.closed) return;
    this.#cancelTimer = clock.after(limits.lingerMs, () => this.#reset("slow_reader"));
    if (this.#stream.headersSent) {
      this.#queue.finish(() => this.#stream.end());
    } else {
      this.#stream.respond({ ...responseHeaders, ...trailersOf(end) }, { endStream: true });
      stopClientAfterEnd(this.#stream, clock);
    }
    this.#onMessage ??= nothing;
    this.#setFlow();
  }

  /** Drops pending output. Clients map the error code to RESOURCE_EXHAUSTED. */
  #reset(reason: CloseReason): void {
    this.#reason = reason;
    this.#stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    this.#stream.destroy();
    this.#closed();
  }

  #closed(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#dropInput();
    this.#release();
    this.#cancelTimer();
    this.#cancelStall();
    // First, so that messages which the queue returns are not sent on this call again.
    this.#notifyClosed(this.#closeReason());
    this.#queue.drop();
  }

  #dropInput(): void {
    this.#frames.clear();
    this.#input?.hold(0);
    if (!this.#isAuthenticated) this.#parts.onHeld(0);
  }

  #closeReason(): CloseReason {
    const isComplete = this.#stream.rstCode === constants.NGHTTP2_NO_ERROR;
    // A client that leaves while the end is being sent has not received everything.
    if (this.#reason !== undefined && (this.#reason !== "ended" || isComplete)) return this.#reason;
    return this.#parts.isConnected() ? "cancelled" : "disconnected";
  }

  #notifyClosed(reason: CloseReason): void {
    if (this.#isCloseNotified) return;
    this.#isCloseNotified = true;
    this.#guard(this.#onClosed, reason);
  }
}

const responseHeaders = {
  ":status": 200,
  "content-type": "application/grpc",
  "grpc-accept-encoding": "identity",
} as const;

const turnsMax = 4;
const recheckMs = 50;

/**
 * Asks a client whose call has a status to stop sending. A reset overtakes everything that was not sent
 * yet, including the status, so it has to wait until the last frame of the call is sent. On a connection
 * that is not blocked, that takes two turns of the event loop.
 */
export function stopClientAfterEnd(stream: ServerHttp2Stream, clock: Clock): void {
  let turns = 0;
  const check = () => {
    // Most clients finish on their own.
    if (stream.destroyed || stream.closed) return;
    turns += 1;
    if (stream.state.localClose === 1) stream.close(constants.NGHTTP2_NO_ERROR);
    else if (turns < turnsMax) setImmediate(check);
    else clock.after(recheckMs, check);
  };
  setImmediate(check);
}

/** Calls of unauthenticated callers with more than one message: few of all calls go on in a turn. */
export class AnonymousTurns {
  readonly #waiting: (() => void)[] = [];

  take(run: () => void): void {
    this.#waiting.push(run);
    if (this.#waiting.length === 1) setImmediate(this.#next);
  }

  readonly #next = (): void => {
    const now = this.#waiting.splice(0, anonymousCallsPerTurn);
    if (this.#waiting.length > 0) setImmediate(this.#next);
    for (const run of now) run();
  };
}

const anonymousCallsPerTurn = 4;
/** The limit for one call; more messages wait for the next turn of the event loop. */
const messagesPerTurnMax = 512;
/** The same limit without an authenticated caller; what has one message, such as a health check, does not wait. */
const anonymousMessagesPerTurnMax = 2;
/** No message fits into less. A client that sends thousands of such frames wants to keep the server busy. */
const pieceBytesMax = 6;
const piecesMax = 1000;

/**
 * Limits the input of one call. In a turn of the event loop each call has a share, so that a call with many
 * messages does not delay the others. A call must not arrive in thousands of pieces, because each piece
 * costs as much as a message.
 */
class InputShare {
  readonly #turn: SendTurn;
  /** The turn that `#messages` counts for. */
  #number = 0;
  #messages = 0;
  /** Small pieces minus larger chunks. */
  #pieces = 0;

  constructor(turn: SendTurn) {
    this.#turn = turn;
  }

  /** Counts a message; false when the next message has to wait for the next turn. */
  countMessage(isAuthenticated: boolean): boolean {
    if (this.#number !== this.#turn.number) {
      this.#number = this.#turn.number;
      this.#messages = 0;
      this.#turn.begin();
    }
    this.#messages += 1;
    return this.#messages < (isAuthenticated ? messagesPerTurnMax : anonymousMessagesPerTurnMax);
  }

  /** Counts a chunk; false when there were too many small pieces. */
  countChunk(bytes: number): boolean {
    this.#pieces = Math.max(0, this.#pieces + (bytes <= pieceBytesMax ? 1 : -1));
    return this.#pieces <= piecesMax;
  }
}
