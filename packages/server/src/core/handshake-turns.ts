/**
 * When TLS handshakes begin. A handshake takes half a millisecond, most of it when the first bytes of the client have
 * arrived, and any client can ask for one. So few begin in a turn of the event loop, in the order in which the bytes arrived.
 *
 * A client that does not finish its handshake makes the server hold as much as it announces, up to 128 KiB. So a first message
 * that announces more than any client needs is refused. Later messages may be as large, so the number of unfinished handshakes
 * is limited, and beyond the limit the oldest one is cut off.
 */
import type { Socket } from "node:net";
import type { Server } from "node:tls";
import type { Clock } from "./clock.ts";

export interface HandshakeLimits {
  /** Connections without a first byte are closed after this time. */
  readonly silentMsMax: number;
  /** Handshakes that have begun and are not finished. */
  readonly unfinishedMax: number;
}

const perTurn = 4;
/** Clients send 300 to 4,000 bytes, the most of it for keys that withstand quantum computers. */
const helloBytesMax = 16 * 1024;
/** The type of a record. */
const handshake = 0x16;
/** The head of a record, and that of the message in it. */
const headBytes = 9;

export class HandshakeTurns {
  readonly #clock: Clock;
  readonly #limits: HandshakeLimits;
  readonly #waiting: (() => void)[] = [];
  /** By the addresses of the clients; the oldest first. */
  readonly #unfinished = new Map<string, Socket>();

  constructor(clock: Clock, limits: HandshakeLimits) {
    this.#clock = clock;
    this.#limits = limits;
  }

  /** To be called before other listeners for connections are added. */
  watch(server: Server): void {
    const takers = server.listeners("connection");
    const ignore = (): void => {};
    server.removeAllListeners("connection");
    server.on("secureConnection", (socket) => void this.#unfinished.delete(nameOf(socket)));
    server.on("connection", (socket: Socket) => {
      const cancel = this.#clock.after(this.#limits.silentMsMax, () => socket.destroy());
      socket.once("close", cancel);
      socket.on("error", ignore);
      let readBytes = 0;
      const onReadable = (): void => {
        const { readableLength } = socket;
        const isOver = readableLength === readBytes;
        readBytes = readableLength;
        if (readBytes < headBytes && !isOver) return;
        cancel();
        socket.off("readable", onReadable);
        this.#waiting.push(() => {
          socket.off("close", cancel).off("error", ignore);
          const bytes = socket.read() as Buffer | null;
          if (bytes === null || bytes.length < headBytes || announcedBytes(bytes) > helloBytesMax) {
            socket.destroy();
            return;
          }
          socket.unshift(bytes);
          this.#begin(socket);
          for (const take of takers) take.call(server, socket);
        });
        if (this.#waiting.length === 1) setImmediate(this.#next);
      };
      socket.on("readable", onReadable);
    });
  }

  readonly #next = (): void => {
    const now = this.#waiting.splice(0, perTurn);
    if (this.#waiting.length > 0) setImmediate(this.#next);
    for (const begin of now) begin();
  };

  #begin(socket: Socket): void {
    const name = nameOf(socket);
    this.#unfinished.set(name, socket);
    socket.once("close", () => {
      if (this.#unfinished.get(name) === socket) this.#unfinished.delete(name);
    });
    if (this.#unfinished.size <= this.#limits.unfinishedMax) return;
    const [[oldest, cut] = []] = this.#unfinished;
    if (oldest === undefined) return;
    this.#unfinished.delete(oldest);
    cut?.destroy();
  }
}

/** The length that the first message says it has; TLS refuses what is no handshake. */
function announcedBytes(bytes: Buffer): number {
  return bytes[0] === handshake ? bytes.readUIntBE(6, 3) : 0;
}

/** The client of a connection, the same for TCP and for TLS on top of it. */
function nameOf({ remoteAddress, remotePort, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localPort}`;
}
