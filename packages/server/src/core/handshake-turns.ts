/**
 * When TLS handshakes begin. A handshake takes half a millisecond, most of it when the first bytes of the client have
 * arrived, and any client can ask for one. So few begin in a turn of the event loop, in the order in which the bytes arrived.
 *
 * A client that does not finish its handshake makes the server hold as much as it announces, up to 128 KiB. So the number of
 * unfinished handshakes is limited, and beyond the limit the oldest one is cut off.
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
      socket.once("readable", () => {
        cancel();
        this.#waiting.push(() => {
          socket.off("close", cancel).off("error", ignore);
          if (socket.readableLength === 0) {
            socket.destroy();
            return;
          }
          this.#begin(socket);
          for (const take of takers) take.call(server, socket);
        });
        if (this.#waiting.length === 1) setImmediate(this.#next);
      });
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

/** The client of a connection, the same for TCP and for TLS on top of it. */
function nameOf({ remoteAddress, remotePort, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localPort}`;
}
