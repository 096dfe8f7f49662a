/** The connection of a router to a shard: to a thread or, in tests and simulations, within the same thread. */
import type { FaultError } from "@codeq/engine";
import type { ShardHost } from "./shard-host.ts";

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

/** A shard in the thread of its router, for servers without files and for tests. */
export class LocalLink implements ShardLink {
  onDown: (fault: FaultError) => void = () => {};
  readonly #defer: (run: () => void) => void;
  readonly #close: () => Promise<void>;
  #host: ShardHost | undefined;
  #listener: ((message: Uint8Array) => void) | undefined;
  /** What came before there was somebody to take it. */
  readonly #early: Uint8Array[] = [];
  readonly #unheard: Uint8Array[] = [];

  constructor(parts: {
    readonly defer: (run: () => void) => void;
    readonly close: () => Promise<void>;
  }) {
    this.#defer = parts.defer;
    this.#close = parts.close;
  }

  /** From now on this one answers. */
  attach(host: ShardHost): void {
    this.#host = host;
    for (const message of this.#early.splice(0)) host.take(message);
  }

  set onMessage(listener: (message: Uint8Array) => void) {
    this.#listener = listener;
    for (const message of this.#unheard.splice(0)) listener(message);
  }

  /** The shard says something. */
  deliver(message: Uint8Array): void {
    this.#defer(() => {
      if (this.#listener === undefined) this.#unheard.push(message);
      else this.#listener(message);
    });
  }

  send(message: Uint8Array<ArrayBuffer>): void {
    this.#defer(() => {
      if (this.#host === undefined) this.#early.push(message);
      else this.#host.take(message);
    });
  }

  stop(): Promise<void> {
    return this.#close();
  }
}
