/**
 * The memory of answers that clients have not read, with a limit for the process. Beyond the limit, connections are closed:
 * those without an authenticated caller first, and of these the one whose client has read nothing for the longest time.
 */
import type { Socket } from "node:net";

interface Held {
  bytes: number;
  readonly drop: () => void;
}

export class UnreadAnswers {
  readonly #bytesMax: number;
  /** The longest first. */
  readonly #anonymous = new Map<Socket, Held>();
  readonly #authenticated = new Map<Socket, Held>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Counts an answer until it was read, which the caller tells, or until the connection is closed. */
  hold(socket: Socket, bytes: number, isAuthenticated: boolean): () => void {
    const all = isAuthenticated ? this.#authenticated : this.#anonymous;
    const held = all.get(socket) ?? this.#begin(all, socket);
    held.bytes += bytes;
    this.#bytes += bytes;
    while (this.#bytes > this.#bytesMax && this.#closeOldest(socket));
    return () => {
      if (all.get(socket) !== held) return;
      held.bytes -= bytes;
      this.#bytes -= bytes;
      if (held.bytes === 0) held.drop();
    };
  }

  #begin(all: Map<Socket, Held>, socket: Socket): Held {
    const drop = (): void => {
      all.delete(socket);
      this.#bytes -= held.bytes;
      socket.off("close", drop);
    };
    const held: Held = { bytes: 0, drop };
    all.set(socket, held);
    // Node tells the answers behind the first one nothing when their connection is closed.
    socket.once("close", drop);
    return held;
  }

  /** False when there is none but the connection that is answered now. */
  #closeOldest(answered: Socket): boolean {
    for (const all of [this.#anonymous, this.#authenticated]) {
      for (const [socket, { drop }] of all) {
        if (socket === answered) continue;
        drop();
        socket.destroy();
        return true;
      }
    }
    return false;
  }
}
