/** The connection of a router to a shard: to a thread or, in tests and simulations, within the same thread. */
import type { FaultError } from "@codeq/engine";
import type { ShardHost } from "./shard-host.ts";

export interface ShardLink {
  /** Takes over the bytes. */
  send(message: Uint8Array<ArrayBuffer>): void;
  /** Set by the listener; called with each message of the shard, in order. */
  onMessage: (message: Uint8Array) => void;
  /**
   * Set by the listener; called once when the shard has ended unexpectedly. A later message comes from a new
   * shard. Calls under way fail with the fault, and later calls with `meanwhile`, if that is given.
   */
  onDown: (fault: FaultError, meanwhile?: FaultError) => void;
  /** Lets the shard finish its work and end. */
  stop(): Promise<void>;
}

/** A shard in the thread of its router, for servers without files and for tests. */
export class LocalLink implements ShardLink {
  onDown: (fault: FaultError) => void = () => {};
  readonly #defer: (run: () => void) => void;
  readonly #close: () => Promise<void>;
  #host: ShardHost | undefined;
  #listener: ((message: Uint8Array) => void) | undefined;
  /** Messages that came before the host was attached, and before there was a listener. */
  readonly #early: Uint8Array[] = [];
  readonly #unheard: Uint8Array[] = [];

  constructor(parts: {
    readonly defer: (run: () => void) => void;
    readonly close: () => Promise<void>;
  }) {
    this.#defer = parts.defer;
    this.#close = parts.close;
  }

  /** Connects the host, which gets the messages that came before. */
  attach(host: ShardHost): void {
    this.#host = host;
    for (const message of this.#early.splice(0)) host.take(message);
  }

  set onMessage(listener: (message: Uint8Array) => void) {
    this.#listener = listener;
    for (const message of this.#unheard.splice(0)) listener(message);
  }

  /** Delivers a message of the shard. */
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
