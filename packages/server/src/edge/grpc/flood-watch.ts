/**
 * Cuts connections that send hardly anything but the frames around it. Pings, window updates, headers
 * that are thrown away, messages in pieces of a byte: HTTP/2 has many ways to keep a server busy with
 * nothing, and most of them are handled below JavaScript. What they have in common is seen from here:
 * bytes arrive, and next to none of them belong to messages.
 *
 * A client at work sends a frame around a message and now and then a ping or a window update, so its
 * other bytes are fewer than those of its messages, or few altogether.
 */
import type { Clock } from "../../core/clock.ts";

export interface FloodLimits {
  readonly floodCheckMs: number;
  /** Bytes outside of messages that may come between two checks, whatever they are. */
  readonly floodBytesMax: number;
}

export interface WatchedConnection {
  /** Everything that has arrived. */
  readonly bytesRead: number;
  /** Of that, the bytes of messages. */
  readonly messageBytes: number;
  cut(): void;
}

interface Seen {
  bytesRead: number;
  messageBytes: number;
}

/** Beyond the limit, so many times the bytes of messages are too much. */
const otherShareMax = 2;

export class FloodWatch {
  readonly #limits: FloodLimits;
  readonly #clock: Clock;
  readonly #watched = new Map<WatchedConnection, Seen>();
  #cancel: (() => void) | undefined;

  constructor(limits: FloodLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  add(connection: WatchedConnection): void {
    this.#watched.set(connection, { bytesRead: 0, messageBytes: 0 });
    this.#cancel ??= this.#schedule();
  }

  delete(connection: WatchedConnection): void {
    this.#watched.delete(connection);
    if (this.#watched.size > 0) return;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #schedule(): () => void {
    return this.#clock.after(this.#limits.floodCheckMs, () => {
      this.#cancel = undefined;
      for (const [connection, seen] of this.#watched) this.#check(connection, seen);
      if (this.#watched.size > 0) this.#cancel ??= this.#schedule();
    });
  }

  #check(connection: WatchedConnection, seen: Seen): void {
    const { bytesRead } = connection;
    if (bytesRead - seen.bytesRead > this.#limits.floodBytesMax) {
      const { messageBytes } = connection;
      const messages = messageBytes - seen.messageBytes;
      const others = bytesRead - seen.bytesRead - messages;
      if (others > this.#limits.floodBytesMax && others > messages * otherShareMax) {
        connection.cut();
        return;
      }
    }
    seen.messageBytes = connection.messageBytes;
    seen.bytesRead = bytesRead;
  }
}
