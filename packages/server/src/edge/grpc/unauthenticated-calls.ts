/**
 * The calls whose caller is not authenticated yet. Every client can open them, so their number and the memory of
 * their input have limits for the whole listener. Beyond a limit the oldest call makes room: a client that
 * knows its token sends the Hello in one piece, and its call holds no memory.
 */
import type { Connection } from "../connections.ts";
import type { ServerStream } from "./server-stream.ts";
import type { GrpcEnd } from "./status.ts";

export interface UnauthenticatedLimits {
  readonly unauthenticatedCallsMax: number;
  /** Memory of the input of these calls that was not handed over. */
  readonly unauthenticatedBytesMax: number;
}

const tooMany: GrpcEnd = {
  status: "UNAVAILABLE",
  message: "too many calls without a token are open; try again",
};

export class UnauthenticatedCalls {
  readonly #limits: UnauthenticatedLimits;
  /** The oldest first. */
  readonly #calls = new Map<ServerStream, Connection | undefined>();
  /** The calls that hold memory, in the order in which they began to. */
  readonly #held = new Map<ServerStream, number>();
  #heldBytes = 0;

  constructor(limits: UnauthenticatedLimits) {
    this.#limits = limits;
  }

  /** `connection` is undefined when the connection was closed early. */
  add(call: ServerStream, connection: Connection | undefined): void {
    this.#calls.set(call, connection);
    if (this.#calls.size > this.#limits.unauthenticatedCallsMax) this.#endOldest(this.#calls);
  }

  delete(call: ServerStream): void {
    this.#calls.delete(call);
    this.hold(call, 0);
  }

  /** The call holds so many bytes now. */
  hold(call: ServerStream, bytes: number): void {
    const before = this.#held.get(call) ?? 0;
    if (bytes === before) return;
    this.#heldBytes += bytes - before;
    if (bytes === 0) this.#held.delete(call);
    else this.#held.set(call, bytes);
    if (this.#heldBytes > this.#limits.unauthenticatedBytesMax) this.#endOldest(this.#held);
  }

  /** Closes the whole connection unless an authenticated caller uses it: its other calls are of the same kind. */
  #endOldest(among: ReadonlyMap<ServerStream, unknown>): void {
    const [oldest] = among.keys();
    if (oldest === undefined) return;
    const connection = this.#calls.get(oldest);
    this.delete(oldest);
    if (connection?.isHeld === false) connection.socket.destroy();
    else oldest.fail(tooMany, "crowded");
  }
}
