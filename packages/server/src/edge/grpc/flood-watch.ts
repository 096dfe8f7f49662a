/**
 * Closes connections that send frames and hardly any messages. Pings, window updates, discarded headers,
 * messages in pieces of one byte: HTTP/2 has many ways to keep a server busy, and most of them are handled
 * below JavaScript. All of them look the same from here: bytes arrive, and next to none belong to messages.
 *
 * A normal client sends a frame around a message and an occasional ping or window update, so its other bytes
 * are fewer than those of its messages, or few altogether.
 */
import type { Clock } from "../../core/clock.ts";

export interface FloodLimits {
  readonly floodCheckMs: number;
  /** Bytes outside of messages that are always allowed between two checks. */
  readonly floodBytesMax: number;
}

export interface WatchedConnection {
  /** All bytes that have arrived. */
  readonly bytesRead: number;
  /** The part of these bytes that are messages. */
  readonly messageBytes: number;
  /** Counts the memory of what has arrived and is not read. */
  countUnread(): void;
  cut(): void;
}

interface Seen {
  bytesRead: number;
  messageBytes: number;
}

/** Beyond the limit, other bytes may be at most this many times the bytes of messages. */
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
    if (bytesRead === seen.bytesRead) return;
    connection.countUnread();
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
