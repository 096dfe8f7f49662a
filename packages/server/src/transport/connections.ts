/**
 * The open connections of one listener, of which there are at most as many as its limit says. A limit
 * that only turns newcomers away would let idle connections lock everybody out, so it is the other
 * way round: when one more comes, the connection is given up that has gone longest without an answer.
 *
 *   waiting   nothing is asked, or only by somebody unknown; may be given up
 *   held      a call of a known caller is open; never given up
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
  /** Those that wait, the longest first. */
  readonly #waiting = new Set<Connection>();
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
    this.#waiting.add(connection);
    socket.once("close", () => {
      this.#waiting.delete(connection);
      // Another connection from the same port may have taken its place.
      if (this.#open.get(key) === connection) this.#open.delete(key);
      if (this.#open.size < this.#options.max * calmShare) this.#isCrowded = false;
    });
  }

  #keepLimit(): void {
    const { listener, max, logger } = this.#options;
    if (this.#open.size <= max) return;
    // The newcomer waits too, so there always is one.
    const [longest] = this.#waiting;
    longest?.socket.destroy();
    this.#givenUp += 1;
    if (this.#isCrowded) return;
    this.#isCrowded = true;
    logger.warn("too many connections: the ones idle for longest are closed", { listener, max });
  }
}

export class Connection {
  readonly socket: Socket;
  readonly #waiting: Set<Connection>;
  #calls = 0;

  constructor(socket: Socket, waiting: Set<Connection>) {
    this.socket = socket;
    this.#waiting = waiting;
  }

  /** A known caller asks for something; to be followed by `release` when that is over. */
  hold(): void {
    this.#calls += 1;
    this.#waiting.delete(this);
  }

  release(): void {
    this.#calls -= 1;
    this.answered();
  }

  /** Something was answered: the connection has been idle since now. */
  answered(): void {
    if (this.#calls > 0 || this.socket.destroyed) return;
    this.#waiting.delete(this);
    this.#waiting.add(this);
  }
}

function keyOf({ remoteAddress, remotePort, localAddress }: Ends): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}
