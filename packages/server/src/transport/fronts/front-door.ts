/**
 * A front: it has a listener, its connections and TLS, and reads and writes plain HTTP requests. The main
 * thread answers them. A connection with any other request is passed to the main thread byte by byte. So a
 * front decides nothing that must be exact for the whole server.
 */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createSecureServer } from "node:tls";
import type { Clock } from "../../clock.ts";
import type { Connection, Connections } from "../connections.ts";
import type { HttpLimits } from "../http/node-server.ts";
import type { PlainAnswers, PlainCall, PlainCaller, PlainReply } from "../http/plain-answers.ts";
import { PlainConnections } from "../http/plain-connections.ts";
import type { RoutePlace } from "../http/plain-request.ts";
import type { ServerTls } from "../tls/server-tls.ts";
import { type DeskWord, type FrontWord, Outbox, said, told } from "./words.ts";

export interface FrontDoorParts {
  readonly limits: HttpLimits;
  readonly bodyBytesMax: number;
  /** Those of the main thread. */
  readonly routes: readonly RoutePlace[];
  readonly connections: Connections;
  /** Undefined for HTTP without TLS. */
  readonly tls: ServerTls | undefined;
  readonly clock: Clock;
  readonly send: (words: readonly FrontWord[]) => void;
  readonly defer: (run: () => void) => void;
}

export class FrontDoor {
  readonly server: Server;
  readonly #parts: FrontDoorParts;
  readonly #out: Outbox<FrontWord>;
  readonly #calls: RemoteAnswers;
  readonly #plain: PlainConnections<RoutePlace>;
  readonly #handedOver = new Map<number, HandedOver>();
  #connections = 0;
  #isClosing = false;

  constructor(parts: FrontDoorParts) {
    const { tls, connections } = parts;
    this.#parts = parts;
    this.#out = new Outbox(parts);
    this.#calls = new RemoteAnswers(this.#out.say);
    this.#plain = new PlainConnections({
      ...parts,
      answers: this.#calls,
      isClosing: () => this.#isClosing,
    });
    this.server = this.#openServer(tls);
    connections.watch(this.server);
  }

  /** Several fronts may listen on one port; the system divides the connections among them. */
  async listen(at: { readonly host: string; readonly port: number }): Promise<number> {
    this.server.listen({ ...at, reusePort: true });
    await once(this.server, "listening");
    return (this.server.address() as AddressInfo).port;
  }

  take(words: readonly DeskWord[]): void {
    for (const word of words) {
      if (word[0] === told.reply) this.#calls.reply(word[1], { head: word[2], text: word[3] });
      else this.#handedOver.get(word[1])?.take(word);
    }
  }

  /** Takes no new connections, and resolves when all that were open are closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.#plain.closeIdle();
    await closed;
  }

  #openServer(tls: ServerTls | undefined): Server {
    const options = { allowHalfOpen: true, noDelay: true };
    const handOver = (socket: Socket): void => this.#handOver(socket);
    if (tls === undefined) {
      const server = createServer(options, handOver);
      this.#plain.watch(server, "connection");
      return server;
    }
    const secure = { ...options, ALPNProtocols: ["http/1.1"], ...tls.options };
    const server = createSecureServer(secure, handOver);
    server.on("tlsClientError", (_error, socket) => socket.destroy());
    this.#plain.watch(server, "secureConnection");
    tls.attach(server);
    return server;
  }

  #handOver(socket: Socket): void {
    const number = ++this.#connections;
    const connection = this.#parts.connections.of(socket);
    this.#handedOver.set(
      number,
      new HandedOver(socket, { number, connection, say: this.#out.say }),
    );
    socket.once("close", () => this.#handedOver.delete(number));
  }
}

/** Has the main thread answer. */
class RemoteAnswers implements PlainAnswers<RoutePlace> {
  readonly #say: (word: FrontWord) => void;
  readonly #waiting = new Map<number, (reply: PlainReply) => void>();
  #calls = 0;

  constructor(say: (word: FrontWord) => void) {
    this.#say = say;
  }

  answer(call: PlainCall<RoutePlace>, caller: PlainCaller): Promise<PlainReply> {
    const { path, headers, body, address } = call;
    const number = ++this.#calls;
    caller.known();
    this.#say([
      said.call,
      number,
      [
        path,
        body.toString("latin1"),
        address,
        headers.authorization,
        headers["x-role"],
        headers["x-request-id"],
        headers.traceparent,
        headers.tracestate,
      ],
    ]);
    caller.whenLeft(() => this.#say([said.left, number]));
    return new Promise((resolve) => this.#waiting.set(number, resolve));
  }

  reply(number: number, reply: PlainReply): void {
    this.#waiting.get(number)?.(reply);
    this.#waiting.delete(number);
  }
}

/** A connection that the main thread serves. */
class HandedOver {
  readonly #socket: Socket;
  readonly #number: number;
  readonly #connection: Connection | undefined;
  readonly #say: (word: FrontWord) => void;

  constructor(
    socket: Socket,
    parts: {
      readonly number: number;
      readonly connection: Connection | undefined;
      readonly say: (word: FrontWord) => void;
    },
  ) {
    const { number, say } = parts;
    this.#socket = socket;
    this.#number = number;
    this.#connection = parts.connection;
    this.#say = say;
    const { remoteAddress, remotePort, localAddress } = socket;
    say([said.opened, number, { remoteAddress, remotePort, localAddress }]);
    socket.on("data", (bytes: Buffer) => say([said.data, number, new Uint8Array(bytes)]));
    socket.on("end", () => say([said.ended, number]));
    socket.on("timeout", () => say([said.timedOut, number]));
    socket.on("close", () => say([said.closed, number]));
    // It is closed then, which is all that there is to tell.
    socket.on("error", () => {});
  }

  take(word: Exclude<DeskWord, readonly [typeof told.reply, ...unknown[]]>): void {
    const socket = this.#socket;
    switch (word[0]) {
      case told.data:
        this.#send(word[2]);
        break;
      case told.end:
        socket.end();
        break;
      case told.destroy:
        socket.destroy();
        break;
      case told.watch:
        socket.setTimeout(word[2]);
        break;
      case told.pause:
        socket.pause();
        break;
      case told.resume:
        socket.resume();
        break;
      case told.held:
        if (word[2]) this.#connection?.hold();
        else this.#connection?.release();
        break;
    }
  }

  #send(bytes: Uint8Array): void {
    // Whoever got an answer last is the last to give way, as with connections of one thread.
    this.#connection?.begin(Number.POSITIVE_INFINITY);
    this.#connection?.end();
    this.#socket.write(bytes, () => this.#say([said.took, this.#number]));
  }
}
