/** The interface of one call for its handler. */
import type { WireWrite } from "@codeq/protocol/wire";
import type { Input } from "../in-flight.ts";
import type { GrpcStatus } from "./status.ts";

export type CloseReason =
  /** The handler ended the call, and the client received everything. */
  | "ended"
  /** The client cancelled the call. */
  | "cancelled"
  /** The connection was closed. */
  | "disconnected"
  | "deadline"
  /** The input is not gRPC, too large, or not the expected message. */
  | "bad_input"
  /** The client does not read: too much output is pending, or for too long. */
  | "slow_reader"
  /** The handler threw. */
  | "failed"
  /** Too many calls without an authenticated caller are open. */
  | "crowded"
  | "shutdown";

/** The headers of a call that are used; the others are not kept. */
export interface Metadata {
  readonly userAgent?: string | undefined;
  readonly requestId?: string | undefined;
  readonly traceParent?: string | undefined;
  readonly traceState?: string | undefined;
  readonly encoding?: string | undefined;
}

export interface GrpcStream {
  readonly path: string;
  readonly metadata: Metadata;
  /** Address and port of the client. */
  readonly peer: string;
  /** On the monotonic clock; undefined when the client set none. */
  readonly deadlineMs: number | undefined;
  /** Sent bytes that are still in this process. */
  readonly pendingBytes: number;
  /**
   * Called with the messages in order. Each is a view of a shared buffer: copy what outlives the callback. An
   * error in the callback ends the call. Reading begins with this call.
   */
  onMessage(run: (bytes: Buffer) => void): void;
  /** The client has sent its last message. */
  onHalfClose(run: () => void): void;
  /** Called exactly once, whatever happens. */
  onClosed(run: (reason: CloseReason) => void): void;
  /** After `send` returned false: the client has caught up. */
  onDrain(run: () => void): void;
  /** The server is about to close; the call has a short time to finish. */
  onGoingAway(run: () => void): void;
  /**
   * Sends a message at the end of this turn. False when the client does not keep up: the message is queued,
   * but wait for `onDrain`. Also false when the call is over; the message is dropped then.
   */
  send(bytes: Uint8Array): boolean;
  /**
   * The same, but encodes straight into the outgoing buffer. `unsent` is called at the end of the call when the
   * message was certainly not sent, unless it was too large.
   */
  sendMessage<T>(write: WireWrite<T>, message: T, unsent?: () => void): boolean;
  /** Stops reading; no message is delivered until `resume`. */
  pause(): void;
  resume(): void;
  /** Sends pending messages, then the status. Later calls are ignored. */
  end(status: GrpcStatus, message?: string): void;
  /**
   * The caller is authenticated: its connection stays open while the call is open, and the memory of messages that have
   * not arrived whole is counted as its input.
   */
  holdConnection(input: Input): void;
  /** Ends the call, because the memory for input is used up. */
  readonly cutForRoom: () => void;
}

export interface StreamLimits {
  readonly messageBytesMax: number;
  /** The same limit until the caller is authenticated: a Hello is a token and a name. */
  readonly unauthenticatedMessageBytesMax: number;
  /** How much a client may send on a call that the server does not read, until the caller is authenticated. */
  readonly unauthenticatedWindowBytes: number;
  /** Above this `send` returns false and the server stops reading the call. */
  readonly sendBytesHigh: number;
  /** The same limit without an authenticated caller, and while all calls have more than `sendBytesTotal`. */
  readonly sendBytesHighCrowded: number;
  readonly sendBytesTotal: number;
  /** Above this the call is reset. */
  readonly sendBytesMax: number;
  /** How long a call may be above `sendBytesHigh` without progress. */
  readonly stallMs: number;
  /** How long an ended call waits for its client to read the rest. */
  readonly lingerMs: number;
}
