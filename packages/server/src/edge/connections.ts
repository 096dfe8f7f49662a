/**
 * The open connections of one listener, and their limit. A limit that refuses new connections would let idle
 * connections lock out every client, so at the limit a new connection replaces an old one.
 *
 *   anonymous       no authenticated call has come yet; closed first, the longest idle one
 *   authenticated   an authenticated call has come, and none is open; closed when no other is anonymous
 *   held            an authenticated call is open; never closed for others
 *
 * The limit counts TCP connections, including those in their TLS handshake.
 */
import type { Server, Socket } from "node:net";
import type { Logger } from "../telemetry/logger.ts";

export interface ConnectionsOptions {
  readonly max: number;
  /** The same limit for connections without an authenticated caller. */
  readonly anonymousMax?: number;
  /** The name of the listener in the log. */
  readonly listener: "http" | "grpc";
  readonly logger: Logger;
  /** Requests of all connections that wait for an earlier one of their connection. */
  readonly pipelinedMax?: number;
}

/** Both ends of a connection, as sockets of TCP, TLS and HTTP/2 know them. */
export interface Ends {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
}

/** Below this share of the limits, the next connection that is closed for another is logged again. */
const calmShare = 0.9;

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #open = new Map<string, Connection>();
  readonly #waiting: Waiting = { anonymous: new Set(), authenticated: new Set(), pipelined: 0 };
  #isCrowded = false;
  #givenUp = 0;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** How many connections were closed for others since the start. */
  get givenUp(): number {
    return this.#givenUp;
  }

  /** Counts the connections that the server accepts. */
  watch(server: Server): void {
    // The listeners of the server run in between and may call `of`.
    server.prependListener("connection", (socket) => this.#opened(socket));
    server.on("connection", () => this.#keepLimit());
  }

  /** Undefined when the connection is closed already. */
  of(ends: Ends): Connection | undefined {
    return this.#open.get(keyOf(ends));
  }

  /** Whether too many requests wait for an earlier one of their connection. */
  get isCrowdedByPipelines(): boolean {
    return this.#waiting.pipelined > (this.#options.pipelinedMax ?? Number.POSITIVE_INFINITY);
  }

  /** Closes all connections at once, also busy ones. */
  destroyAll(): void {
    for (const { socket } of this.#open.values()) socket.destroy();
  }

  #opened(socket: Socket): void {
    const key = keyOf(socket);
    const connection = new Connection(socket, this.#waiting);
    this.#open.set(key, connection);
    socket.once("close", () => {
      connection.unlist();
      connection.forget();
      // Another connection from the same port may already have the key.
      if (this.#open.get(key) === connection) this.#open.delete(key);
      if (!this.#isAbove(calmShare)) this.#isCrowded = false;
    });
  }

  /** Whether there are more connections than this share of a limit. */
  #isAbove(share: number): boolean {
    const { max, anonymousMax = max } = this.#options;
    return this.#open.size > max * share || this.#waiting.anonymous.size > anonymousMax * share;
  }

  #keepLimit(): void {
    const { listener, max, anonymousMax, logger } = this.#options;
    if (!this.#isAbove(1)) return;
    const { anonymous, authenticated } = this.#waiting;
    // The new connection is the last of the anonymous ones: it is closed only when all others are held.
    const [longest] = anonymous.size > 1 || authenticated.size === 0 ? anonymous : authenticated;
    longest?.unlist();
    longest?.socket.destroy();
    this.#givenUp += 1;
    if (this.#isCrowded) return;
    this.#isCrowded = true;
    logger.warn("too many connections; closing the longest idle ones", {
      listener,
      max,
      withoutTokenMax: anonymousMax,
    });
  }
}

/** Connections that may be closed, the longest idle first, and what is counted for all of them. */
interface Waiting {
  pipelined: number;
  readonly anonymous: Set<Connection>;
  readonly authenticated: Set<Connection>;
}

export class Connection {
  readonly socket: Socket;
  readonly #waiting: Waiting;
  #requests = 0;
  #calls = 0;
  #isAuthenticated = false;
  #refusals = 0;

  constructor(socket: Socket, waiting: Waiting) {
    this.socket = socket;
    this.#waiting = waiting;
    waiting.anonymous.add(this);
  }

  get isHeld(): boolean {
    return this.#calls > 0;
  }

  get isPipelined(): boolean {
    return this.#requests > 1;
  }

  /** Requests without an authenticated caller since the last request with one. */
  get refusals(): number {
    return this.#refusals;
  }

  /** Counts a request whose caller was not authenticated. */
  refused(): void {
    this.#refusals += 1;
  }

  /** Counts a request; false when too many requests are unanswered. */
  begin(requestsMax: number): boolean {
    this.#requests += 1;
    if (this.#requests > 1) this.#waiting.pipelined += 1;
    return this.#requests <= requestsMax;
  }

  /** Counts the answer to a request. */
  end(): void {
    if (this.#requests > 1) this.#waiting.pipelined -= 1;
    if (this.#requests > 0) this.#requests -= 1;
    this.#wait();
  }

  /** The connection is closed; its requests are not answered. */
  forget(): void {
    this.#waiting.pipelined -= Math.max(0, this.#requests - 1);
    this.#requests = 0;
  }

  /** Begins an authenticated call; `release` ends it. */
  hold(): void {
    this.#calls += 1;
    this.#isAuthenticated = true;
    this.#refusals = 0;
    this.unlist();
  }

  release(): void {
    this.#calls -= 1;
    this.#wait();
  }

  /** From now on the connection is not closed for others. */
  unlist(): void {
    this.#waiting.anonymous.delete(this);
    this.#waiting.authenticated.delete(this);
  }

  #wait(): void {
    if (this.#calls > 0 || this.socket.destroyed) return;
    const waiting = this.#isAuthenticated ? this.#waiting.authenticated : this.#waiting.anonymous;
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
