/** The connection of a router to a shard: to a thread or, in tests and simulations, within the same thread. */
import type { FaultError } from "@codeq/engine";

export interface ShardLink {
  /** Takes over the bytes. */
  send(message: Uint8Array<ArrayBuffer>): void;
  /** Set by who listens; called with each message of the shard, in their order. */
  onMessage: (message: Uint8Array) => void;
  /**
   * Set by who listens; called once when the shard has ended unasked. A message after it is of a new one.
   * Calls under way hear the fault, and later ones `meanwhile`, if that is another.
   */
  onDown: (fault: FaultError, meanwhile?: FaultError) => void;
  /** Has the shard finish what it does and end. */
  stop(): Promise<void>;
}
