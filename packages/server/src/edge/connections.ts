/**
 * The open connections of one listener, of which there are at most as many as its limit says. A limit
 * that only turns newcomers away would let idle connections lock everybody out, so it is the other
 * way round: when one more comes, another is given up.
 *
 *   strange   nobody known has called on it; given up first, the one without an answer for longest
 *   known     somebody known has called, and waits for nothing; given up when no other is strange
 *   held      a call of somebody known is open; never given up
 *
 * What is counted are connections of TCP, so those that are still shaking hands for TLS count too.
 */
import type { Server, Socket } from "node:net";
import type { Logger } from "../telemetry/logger.ts";

export interface ConnectionsOptions {
  readonly max: number;
  /** For the log: which listener it is. */
  readonly listener: "http" | "grpc";
  readonly logger: Logger;
}

/** A socket, or what stands for it in TLS and HTTP/2; all of them know both ends. */
export interface Ends {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
}

/** Below this share of the limit the next connection that is given up is news again. */
const calmShare = 0.9;

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #open = new Map<string, Connection>();
  readonly #waiting: Waiting = { strange: new Set(), known: new Set() };
  #isCrowded = false;
  #givenUp = 0;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** How many were given up since the start. */
  get givenUp(): number {
    return this.#givenUp;
  }

  /** Counts what this server accepts. */
  watch(server: Server): void {
    // The server itself looks at the connection in between, and may ask for it.
    server.prependListener("connection", (socket) => this.#opened(socket));
    server.on("connection", () => this.#keepLimit());
  }

  /** Undefined when it is closed already. */
  of(ends: Ends): Connection | undefined {
    return this.#open.get(keyOf(ends));
  }

  /** Cuts off everybody, whatever they are doing. */
  destroyAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  #opened(socket: Socket): void {
    const key = keyOf(socket);
    const connection = new Connection(socket, this.#waiting);
    this.#open.set(key, connection);
    socket.once("close", () => {
      connection.unlist();
      // Another connection from the same port may have taken its place.
      if (this.#open.get(key) === connection) this.#open.delete(key);
      if (this.#open.size < this.#options.max * calmShare) this.#isCrowded = false;
    });
  }

  #keepLimit(): void {
    const { listener, max, logger } = this.#options;
    if (this.#open.size <= max) return;
    const { strange, known } = this.#waiting;
    // The newcomer is the last of the strange ones, and goes only when all others are held.
    const [longest] = strange.size > 1 || known.size === 0 ? strange : known;
    longest?.socket.destroy();
    this.#givenUp += 1;
    if (this.#isCrowded) return;
    this.#isCrowded = true;
    logger.warn("too many connections; closing the longest idle ones", { listener, max });
  }
}

/** Each with the longest first. */
interface Waiting {
  readonly strange: Set<Connection>;
  readonly known: Set<Connection>;
}

export class Connection {
  readonly socket: Socket;
  readonly #waiting: Waiting;
  #requests = 0;
  #calls = 0;
  #isKnown = false;

  constructor(socket: Socket, waiting: Waiting) {
    this.socket = socket;
    this.#waiting = waiting;
    waiting.strange.add(this);
  }

  get isHeld(): boolean {
    return this.#calls > 0;
  }

  /** A request has come; false when there are too many unanswered ones. */
  begin(requestsMax: number): boolean {
    this.#requests += 1;
    return this.#requests <= requestsMax;
  }

  /** The request was answered. */
  end(): void {
    this.#requests -= 1;
    this.#wait();
  }

  /** Somebody known asks for something; to be followed by `release` when that is over. */
  hold(): void {
    this.#calls += 1;
    this.#isKnown = true;
    this.unlist();
  }

  release(): void {
    this.#calls -= 1;
    this.#wait();
  }

  /** It is not to be given up any more. */
  unlist(): void {
    this.#waiting.strange.delete(this);
    this.#waiting.known.delete(this);
  }

  #wait(): void {
    if (this.#calls > 0 || this.socket.destroyed) return;
    const waiting = this.#isKnown ? this.#waiting.known : this.#waiting.strange;
    waiting.delete(this);
    waiting.add(this);
  }
}

function keyOf({ remoteAddress, remotePort, localAddress }: Ends): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}

const withPort = /^(?:\[([^\]]+)\]|([^:]+)):\d+$/;

/** The address of a peer without its port; an IPv4 address in IPv6 form becomes IPv4. */
export function addressOf(peer: string): string {
  const [, bracketed, plain] = withPort.exec(peer) ?? [];
  return (bracketed ?? plain ?? peer).replace(/^::ffff:(?=\d+\.)/i, "");
}
