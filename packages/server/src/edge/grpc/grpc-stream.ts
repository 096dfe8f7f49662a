/** The interface of one call for its handler. */
import type { IncomingHttpHeaders } from "node:http2";
import type { WireWrite } from "@codeq/protocol/wire";
import type { GrpcStatus } from "./status.ts";

export type CloseReason =
  /** The handler ended the call, and the client got everything. */
  | "ended"
  /** The client took the call back. */
  | "cancelled"
  /** The connection is gone. */
  | "disconnected"
  | "deadline"
  /** Not gRPC, too large, or not the message that was expected. */
  | "bad_input"
  /** The client does not read: more was sent than the limit allows, or the end took too long. */
  | "slow_reader"
  /** The handler threw. */
  | "failed"
  /** It made room for others, of whom as little was known. */
  | "crowded"
  | "shutdown";

export interface GrpcStream {
  readonly path: string;
  readonly metadata: IncomingHttpHeaders;
  /** Address and port of the other end. */
  readonly peer: string;
  /** On the monotonic clock; undefined when the client set none. */
  readonly deadlineMs: number | undefined;
  /** Bytes that were sent and are still in this process. */
  readonly pendingBytes: number;
  /**
   * Messages in order, each a view of bytes that are kept as long as any view of them: copy what
   * outlives the call back. What it throws ends the call. Reading begins with this call.
   */
  onMessage(run: (bytes: Buffer) => void): void;
  /** The client has sent its last message. */
  onHalfClose(run: () => void): void;
  /** Called exactly once, whatever happens. */
  onClosed(run: (reason: CloseReason) => void): void;
  /** After `send` returned false: there is room again. */
  onDrain(run: () => void): void;
  /** The server is about to close; the call has a little time to come to its end. */
  onGoingAway(run: () => void): void;
  /**
   * Sends a message at the end of this turn. False says that it was taken but that the client does
   * not keep up: wait for `onDrain`. Also false when the call is over, and the message is dropped.
   */
  send(bytes: Uint8Array): boolean;
  /**
   * The same without bytes in between: encodes straight into the outgoing buffer. `unsent` is called
   * at the end of the call when it is certain that the message never left, except for being too large.
   */
  sendMessage<T>(write: WireWrite<T>, message: T, unsent?: () => void): boolean;
  /** Stops reading; no message is delivered until `resume`. */
  pause(): void;
  resume(): void;
  /** Sends what is left, then the status. Later calls are ignored. */
  end(status: GrpcStatus, message?: string): void;
  /** The caller is known: its connection is kept for as long as the call is open. */
  vouch(): void;
}

export interface StreamLimits {
  readonly messageBytesMax: number;
  /** Above this `send` returns false and the call is not read from. */
  readonly sendBytesHigh: number;
  /** The same while all calls together have more than `sendBytesTotal`. */
  readonly sendBytesHighCrowded: number;
  readonly sendBytesTotal: number;
  /** Above this the call is cut off. */
  readonly sendBytesMax: number;
  /** How long a call may have more than that without any of it leaving. */
  readonly stallMs: number;
  /** How long an ended call waits for its client to take the rest. */
  readonly lingerMs: number;
}
