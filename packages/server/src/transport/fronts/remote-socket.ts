/**
 * A connection whose socket is in another thread, as a socket for Node's HTTP server. It behaves like the
 * real socket: data counts as sent when the system accepted it, reading can be paused, and a silent
 * connection is reported after the given time.
 */
import { Duplex } from "node:stream";
import type { Ends } from "../connections.ts";
import { type DeskWord, told } from "./words.ts";

type Done = (error?: Error | null) => void;

export class RemoteSocket extends Duplex {
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localAddress: string | undefined;
  timeout: number | undefined;
  readonly #number: number;
  readonly #say: (word: DeskWord) => void;
  #isPaused = false;
  #isGone = false;
  #sent: Done | undefined;

  constructor(parts: {
    readonly number: number;
    readonly ends: Ends;
    readonly say: (word: DeskWord) => void;
  }) {
    super({ allowHalfOpen: true });
    const { remoteAddress, remotePort, localAddress } = parts.ends;
    this.remoteAddress = remoteAddress;
    this.remotePort = remotePort;
    this.localAddress = localAddress;
    this.#number = parts.number;
    this.#say = parts.say;
  }

  receive(bytes: Uint8Array): void {
    const hasRoom = this.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    if (hasRoom || this.#isPaused) return;
    this.#isPaused = true;
    this.#say([told.pause, this.#number]);
  }

  /** The other end sends nothing more. */
  receivedAll(): void {
    this.push(null);
  }

  /** What was written last has left. */
  took(): void {
    const done = this.#sent;
    this.#sent = undefined;
    done?.();
  }

  /** The socket is closed. */
  gone(): void {
    this.#isGone = true;
    this.destroy();
  }

  hold(isHeld: boolean): void {
    if (!this.#isGone) this.#say([told.held, this.#number, isHeld]);
  }

  setTimeout(ms: number, onTimeout?: () => void): this {
    this.timeout = ms;
    if (onTimeout !== undefined) this.once("timeout", onTimeout);
    if (!this.#isGone) this.#say([told.watch, this.#number, ms]);
    return this;
  }

  /** The socket itself never waits for more before it sends. */
  setNoDelay(): this {
    return this;
  }

  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once("finish", () => this.destroy());
  }

  override _read(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    if (!this.#isGone) this.#say([told.resume, this.#number]);
  }

  override _write(chunk: Buffer, _encoding: string, done: Done): void {
    this.#sent = done;
    // A copy of its own: what is written here may be part of something larger, or used again.
    this.#say([told.data, this.#number, new Uint8Array(chunk)]);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: Done): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), "buffer", done);
  }

  override _final(done: Done): void {
    if (!this.#isGone) this.#say([told.end, this.#number]);
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
    if (!this.#isGone) this.#say([told.destroy, this.#number]);
    this.#isGone = true;
    this.#sent = undefined;
    done(error);
  }
}
