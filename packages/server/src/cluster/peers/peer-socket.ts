/**
 * An authenticated connection between two nodes.
 *
 * Both ends show that they know the secret of the cluster, by hashes over numbers that the other end has
 * drawn, and every frame carries a hash over its bytes and its number in the connection. A client or node
 * without the secret, and frames that were changed, left out or replayed, end the connection. The bytes are not
 * encrypted.
 *
 * Each end sends a heartbeat every 100 ms. An end that receives nothing for 400 ms closes the connection, and
 * so does an end whose frames are not read: a node that hangs must cost the others neither memory nor time.
 *
 * States: greeting (until both ends have shown that they know the secret); open; closed, which is final.
 */
import {
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";
import type { Socket } from "node:net";
import type { Clock } from "../../core/clock.ts";

/** The secret that a node shows, and then those that it also accepts, while the secret of a cluster is replaced. */
export type ClusterSecrets = readonly [own: string, ...others: string[]];

export interface PeerSocketParts {
  readonly socket: Socket;
  readonly secrets: ClusterSecrets;
  /** Whether this end opened the connection. */
  readonly isCaller: boolean;
  readonly clock: Clock;
  readonly onOpen: () => void;
  readonly onFrame: (kind: number, channel: number, body: Uint8Array<ArrayBuffer>) => void;
  /** Called once. `isUnknown` when the other end does not know the secret. */
  readonly onClose: (isUnknown: boolean) => void;
}

const protocolName = Buffer.from("codeq-peer/1\n");
const nonceBytes = 32;
const proofBytes = 32;
const greetingBytes: number = protocolName.length + nonceBytes;
const hashBytes = 16;
/** Length, hash, kind, channel. */
const headBytes: number = 4 + hashBytes + 1 + 4;
const frameBytesMax = 128 * 1024 * 1024;
const greetMsMax = 1500;
const beatMs = 100;
/** The most heartbeats without a frame of the other end. Counted instead of timed, because this end may have hung, too. */
const silentBeatsMax = 3;
/** The most bytes that may wait for the other end at two heartbeats in a row. */
const waitingBytesMax = 64 * 1024 * 1024;
/** The kind of a heartbeat frame, which is not passed to `onFrame`. */
const beatKind = 0;

const nothing = new Uint8Array(0);

export class PeerSocket {
  readonly #parts: PeerSocketParts;
  readonly #nonce: Buffer = randomBytes(nonceBytes);
  readonly #cancelGreeting: () => void;
  #state: "greeting" | "proving" | "open" | "closed" = "greeting";
  #pieces: Buffer[] = [];
  #bytes = 0;
  #keyIn: KeyObject | undefined;
  #keyOut: KeyObject | undefined;
  /** One for each accepted secret. */
  #expected: readonly { readonly proof: Buffer; readonly keyIn: KeyObject }[] = [];
  #received = 0;
  #sent = 0;
  #silentBeats = 0;
  #wasSlow = false;
  #cancelBeat: () => void = () => {};

  constructor(parts: PeerSocketParts) {
    this.#parts = parts;
    const { socket, clock } = parts;
    socket.setNoDelay(true);
    socket.on("data", (piece: Buffer) => this.#take(piece));
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#close(false));
    this.#cancelGreeting = clock.after(greetMsMax, () => {
      if (this.#state !== "open") this.#close(false);
    });
    socket.write(Buffer.concat([protocolName, this.#nonce]));
  }

  get isOpen(): boolean {
    return this.#state === "open";
  }

  send(kind: number, channel: number, body: Uint8Array): void {
    if (this.#state !== "open") return;
    const head = Buffer.allocUnsafe(headBytes);
    head.writeUInt32LE(body.length, 0);
    head.writeUInt8(kind, 4 + hashBytes);
    head.writeUInt32LE(channel, 4 + hashBytes + 1);
    this.#sent += 1;
    hashOf(this.#keyOut as KeyObject, this.#sent, head, body).copy(head, 4);
    const { socket } = this.#parts;
    socket.cork();
    socket.write(head);
    if (body.length > 0) socket.write(body);
    process.nextTick(() => socket.uncork());
  }

  close(): void {
    this.#close(false);
  }

  #take(piece: Buffer): void {
    this.#silentBeats = 0;
    this.#pieces.push(piece);
    this.#bytes += piece.length;
    while (this.#step());
  }

  /** Reads one part of the stream of bytes, if it is complete. */
  #step(): boolean {
    switch (this.#state) {
      case "greeting":
        return this.#greet();
      case "proving":
        return this.#prove();
      case "open":
        return this.#frame();
      case "closed":
        return false;
    }
  }

  #greet(): boolean {
    const greeting = this.#read(greetingBytes);
    if (greeting === undefined) return false;
    if (!greeting.subarray(0, protocolName.length).equals(protocolName)) {
      this.#close(true);
      return false;
    }
    const other = greeting.subarray(protocolName.length);
    const { secrets, isCaller, socket } = this.#parts;
    const nonces = isCaller ? [this.#nonce, other] : [other, this.#nonce];
    const derive = (secret: string, use: string): Buffer => {
      const hash = createHmac("sha256", secret).update(use);
      for (const nonce of nonces) hash.update(nonce);
      return hash.digest();
    };
    const [own, others] = isCaller ? ["caller", "called"] : ["called", "caller"];
    this.#expected = secrets.map((each) => ({
      proof: derive(each, `proof of the ${others}`),
      keyIn: createSecretKey(derive(each, `frames of the ${others}`)),
    }));
    const [secret] = secrets;
    this.#keyOut = createSecretKey(derive(secret, `frames of the ${own}`));
    this.#state = "proving";
    socket.write(derive(secret, `proof of the ${own}`));
    return true;
  }

  #prove(): boolean {
    const proof = this.#read(proofBytes);
    if (proof === undefined) return false;
    const shown = this.#expected.find((each) => timingSafeEqual(proof, each.proof));
    if (shown === undefined) {
      this.#close(true);
      return false;
    }
    this.#keyIn = shown.keyIn;
    this.#state = "open";
    this.#cancelGreeting();
    this.#planBeat();
    this.#parts.onOpen();
    return true;
  }

  #frame(): boolean {
    const start = this.#peek(4);
    if (start === undefined) return false;
    const bodyBytes = start.readUInt32LE(0);
    if (bodyBytes > frameBytesMax) {
      this.#close(true);
      return false;
    }
    const frame = this.#read(headBytes + bodyBytes);
    if (frame === undefined) return false;
    const head = frame.subarray(0, headBytes);
    const body = frame.subarray(headBytes);
    this.#received += 1;
    const expected = hashOf(this.#keyIn as KeyObject, this.#received, head, body);
    if (!timingSafeEqual(head.subarray(4, 4 + hashBytes), expected)) {
      this.#close(true);
      return false;
    }
    const kind = head.readUInt8(4 + hashBytes);
    // Copied, because the receiver keeps parts of it.
    const channel = head.readUInt32LE(4 + hashBytes + 1);
    if (kind !== beatKind) this.#parts.onFrame(kind, channel, Uint8Array.from(body));
    return true;
  }

  #planBeat(): void {
    this.#cancelBeat = this.#parts.clock.after(beatMs, () => this.#beat());
  }

  #beat(): void {
    const isSlow = this.#parts.socket.writableLength > waitingBytesMax;
    this.#silentBeats += 1;
    if (this.#silentBeats > silentBeatsMax || (isSlow && this.#wasSlow)) {
      this.#close(false);
      return;
    }
    this.#wasSlow = isSlow;
    this.send(beatKind, 0, nothing);
    this.#planBeat();
  }

  #peek(bytes: number): Buffer | undefined {
    if (this.#bytes < bytes) return undefined;
    const [first = Buffer.alloc(0)] = this.#pieces;
    if (first.length < bytes) this.#pieces = [Buffer.concat(this.#pieces)];
    return this.#pieces[0];
  }

  #read(bytes: number): Buffer | undefined {
    if (this.#bytes < bytes) return undefined;
    const all = this.#peek(bytes) as Buffer;
    this.#bytes -= bytes;
    if (all.length === bytes) this.#pieces.shift();
    else this.#pieces[0] = all.subarray(bytes);
    return all.subarray(0, bytes);
  }

  #close(isUnknown: boolean): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#cancelGreeting();
    this.#cancelBeat();
    this.#parts.socket.destroy();
    this.#parts.onClose(isUnknown);
  }
}

/** A hash over the number of the frame, its kind, its channel and its body. */
function hashOf(key: KeyObject, number: number, head: Buffer, body: Uint8Array): Buffer {
  const counter = Buffer.allocUnsafe(8);
  counter.writeDoubleLE(number, 0);
  const hash = createHmac("sha256", key).update(counter);
  hash.update(head.subarray(0, 4)).update(head.subarray(4 + hashBytes));
  return hash.update(body).digest().subarray(0, hashBytes);
}
