/**
 * When TLS handshakes begin. A handshake takes half a millisecond, most of it when the first bytes of the client have
 * arrived, and any client can ask for one. So few begin in a turn of the event loop, in the order in which the bytes arrived.
 */
import type { Socket } from "node:net";
import type { Server } from "node:tls";
import type { Clock } from "./clock.ts";

const perTurn = 4;

/** To be called before other listeners for connections are added. Connections without a first byte are closed after this time. */
export function takeHandshakeTurns(server: Server, clock: Clock, silentMsMax: number): void {
  const takers = server.listeners("connection");
  const waiting: (() => void)[] = [];
  const next = (): void => {
    const now = waiting.splice(0, perTurn);
    if (waiting.length > 0) setImmediate(next);
    for (const begin of now) begin();
  };
  const ignore = (): void => {};
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const cancel = clock.after(silentMsMax, () => socket.destroy());
    socket.once("close", cancel);
    socket.on("error", ignore);
    socket.once("readable", () => {
      cancel();
      waiting.push(() => {
        socket.off("close", cancel).off("error", ignore);
        if (socket.readableLength === 0) socket.destroy();
        else for (const take of takers) take.call(server, socket);
      });
      if (waiting.length === 1) setImmediate(next);
    });
  });
}
