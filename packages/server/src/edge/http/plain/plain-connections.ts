/**
 * Connections with plain requests, answered without Node's HTTP server and Fastify. The first request that
 * is not plain hands its connection over to Node permanently; the client sees no difference.
 *
 *   idle        waits for a request; ends with a request, a close or a timeout
 *   answering   one request is being answered; bytes behind it are kept for Node
 *   left        Node has the connection, or it is closed
 */
import { STATUS_CODES } from "node:http";
import type { Server, Socket } from "node:net";
import type { Clock } from "../../../core/clock.ts";
import { type MaybePromise, whenKnown } from "../../../core/maybe-promise.ts";
import { addressOf, type Connection, type Connections } from "../../connections.ts";
import {
  type Calls,
  type Exchange,
  headersOf,
  type Listener,
  noQuery,
  requestIdOf,
} from "../calls.ts";
import { FairTurns } from "../fair-turns.ts";
import { type HttpLimits, stalledMs } from "../node-server.ts";
import type { AnyRoute, HttpReply } from "../route.ts";
import { type FoundRoute, type PlainRequest, PlainRoutes, readPlain } from "./plain-request.ts";
import type { UnreadAnswers } from "./unread-answers.ts";

export interface PlainParts {
  readonly calls: Calls;
  readonly routes: readonly AnyRoute[];
  readonly connections: Connections;
  readonly clock: Clock;
  readonly turns: FairTurns;
  readonly bodyBytesMax: number;
  readonly limits: HttpLimits;
  /** Memory of all bytes that arrive behind requests that are being answered. */
  readonly earlyBytesMax: number;
  readonly unread: UnreadAnswers;
}

/** Larger bodies go through Fastify, which parses one large body in each event loop turn. */
const plainBodyBytesMax = 64 * 1024;
/** Added to the advertised keep-alive, so that no client writes to a closing connection. */
const keepAliveSpareMs = 1000;
const timedOut = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n";

export class PlainConnections {
  readonly #parts: PlainParts;
  readonly #routes: PlainRoutes;
  readonly #open = new Set<PlainConnection>();
  readonly #dates: Dates;
  readonly #early = new EarlyBytes();

  constructor(parts: PlainParts) {
    this.#parts = parts;
    this.#routes = new PlainRoutes(parts.routes);
    this.#dates = new Dates(parts.clock);
  }

  /** Takes new connections before the server does. */
  watch(server: Server, event: "connection" | "secureConnection"): void {
    const takers = server.listeners(event);
    server.removeAllListeners(event);
    const leave = (socket: Socket): void => {
      for (const take of takers) take.call(server, socket);
    };
    server.on(event, (socket: Socket) => {
      if (this.#parts.calls.isClosing || socket.destroyed) leave(socket);
      else this.#take(socket, leave);
    });
  }

  /** Closes idle connections; busy ones close after their answers. */
  closeIdle(): void {
    for (const each of this.#open) each.closeIfIdle();
  }

  #take(socket: Socket, leave: (socket: Socket) => void): void {
    const each = new PlainConnection(socket, {
      ...this.#parts,
      routes: this.#routes,
      dates: this.#dates,
      early: this.#early,
      leave: () => {
        this.#open.delete(each);
        leave(socket);
      },
      closed: () => this.#open.delete(each),
    });
    this.#open.add(each);
  }
}

interface ConnectionParts extends Omit<PlainParts, "routes"> {
  readonly routes: PlainRoutes;
  readonly dates: Dates;
  readonly early: EarlyBytes;
  readonly leave: () => void;
  readonly closed: () => void;
}

interface PlainExchange extends Exchange {
  readonly startedMs: number;
}

class PlainConnection {
  readonly #socket: Socket;
  readonly #parts: ConnectionParts;
  readonly #connection: Connection | undefined;
  readonly #address: string;
  #isAnswering = false;
  /** Bytes that arrived while a request was being answered. */
  #early: Buffer | undefined;
  #waiting: AbortController | undefined;
  #onLeft: (() => void) | undefined;
  #onceOver: (() => void) | undefined;
  #hasAnswered = false;

  constructor(socket: Socket, parts: ConnectionParts) {
    this.#socket = socket;
    this.#parts = parts;
    this.#connection = parts.connections.of(socket);
    this.#address = addressOf(socket.remoteAddress ?? "");
    socket.setNoDelay(true);
    socket.setTimeout(parts.limits.headersTimeoutSeconds * 1000);
    socket.on("timeout", this.#timedOut);
    socket.on("error", this.#failed);
    socket.on("end", this.#ended);
    socket.on("close", this.#closed);
    socket.on("drain", this.#drained);
    socket.on("data", this.#received);
  }

  closeIfIdle(): void {
    if (this.#isAnswering) return;
    // A slow reader may not have received its whole answer yet.
    if (this.#socket.writableLength > 0) this.#socket.destroySoon();
    else this.#socket.destroy();
  }

  readonly #received = (bytes: Buffer): void => {
    // The answer could not be sent.
    if (!this.#socket.writable) return;
    if (this.#isAnswering) {
      this.#keepEarly(bytes);
      return;
    }
    const request = readPlain(bytes);
    const found = request === undefined ? undefined : this.#parts.routes.find(request.path);
    if (request === undefined || found === undefined || !this.#isWhole(request, bytes)) {
      this.#leave(bytes);
      return;
    }
    this.#isAnswering = true;
    const body = bytes.subarray(request.bodyAt);
    // A plain request comes alone, so only refused callers need turns.
    if (this.#connection === undefined || this.#connection.refusals === 0) {
      this.#serve(request, found, body);
    } else {
      this.#parts.turns.take(this.#connection, () => this.#serve(request, found, body));
    }
  };

  /** A client that does not wait for its answer makes the server hold what it sends meanwhile. */
  #keepEarly(bytes: Buffer): void {
    const { early, earlyBytesMax } = this.#parts;
    early.bytes += bytes.length;
    this.#early = this.#early === undefined ? bytes : Buffer.concat([this.#early, bytes]);
    if (early.bytes > earlyBytesMax) this.#socket.destroy();
    else this.#socket.pause();
  }

  #dropEarly(): void {
    this.#parts.early.bytes -= this.#early?.length ?? 0;
    this.#early = undefined;
  }

  #isWhole({ bodyAt, bodyBytes }: PlainRequest, bytes: Buffer): boolean {
    const { limits } = this.#parts;
    if (bytes.length !== bodyAt + bodyBytes || bodyAt > limits.headerBytesMax) return false;
    return bodyBytes <= Math.min(plainBodyBytesMax, this.#parts.bodyBytesMax);
  }

  #serve({ path, headers }: PlainRequest, { route, params }: FoundRoute, body: Buffer): void {
    const { calls, clock } = this.#parts;
    const from = { address: this.#address, requestId: requestIdOf(headers["x-request-id"]) };
    const exchange: PlainExchange = {
      route,
      path,
      params,
      query: noQuery,
      headers,
      from,
      connection: this.#connection,
      listen: this.#listen,
      startedMs: clock.monotonicMs(),
      identity: undefined,
      admission: undefined,
    };
    this.#connection?.begin(Number.POSITIVE_INFINITY);
    const { authorization, "x-role": role } = headers;
    let reply: MaybePromise<HttpReply>;
    try {
      reply = whenKnown(
        calls.enter(exchange, { authorization, role, tenant: undefined, from }),
        (refused) => refused ?? calls.answer(exchange, body),
      );
    } catch (error) {
      reply = calls.failed(error, from.requestId, route.path);
    }
    if (reply instanceof Promise) {
      reply.then(
        (known) => this.#reply(exchange, known),
        (error) => this.#reply(exchange, calls.failed(error, from.requestId, route.path)),
      );
    } else {
      this.#reply(exchange, reply);
    }
  }

  #reply(exchange: PlainExchange, reply: HttpReply): void {
    const { calls, clock, dates, limits } = this.#parts;
    const { route, from } = exchange;
    const socket = this.#socket;
    this.#isAnswering = false;
    this.#stopWaiting();
    const ms = clock.monotonicMs() - exchange.startedMs;
    calls.answered(
      {
        requestId: from.requestId,
        method: route.method,
        route: route.path,
        status: reply.status,
        ms,
      },
      exchange,
    );
    const isRefusedOften = this.#connection !== undefined && FairTurns.isOver(this.#connection);
    const isClosing = calls.isClosing || isRefusedOften;
    const kept = isClosing
      ? "close"
      : `keep-alive\r\nKeep-Alive: timeout=${limits.keepAliveSeconds}`;
    const head = `${headOf(exchange, reply)}${dates.line()}Connection: ${kept}\r\n\r\n`;
    const isAuthenticated = exchange.identity !== undefined;
    if (socket.writable) {
      this.#write(head, typeof reply.body === "string" ? reply.body : "", isAuthenticated);
    }
    if (isAuthenticated) this.#connection?.release();
    else this.#connection?.refused();
    this.#connection?.end();
    if (!socket.writable) return;
    if (this.#early !== undefined && !isClosing) {
      this.#leave(this.#early);
      return;
    }
    this.#keepAlive();
    if (isClosing) socket.destroySoon();
  }

  #write(head: string, text: string, isAuthenticated: boolean): void {
    const socket = this.#socket;
    // ASCII text needs no UTF-8 encoding.
    const isAscii = Buffer.byteLength(text) === text.length;
    const hasRoom = socket.write(head + text, isAscii ? "latin1" : "utf8");
    const unreadBytes = socket.writableLength;
    // Called when everything before it was sent.
    if (unreadBytes > 0) {
      socket.write("", this.#parts.unread.hold(socket, unreadBytes, isAuthenticated));
    }
    // Stop reading from clients that do not read their responses.
    if (!hasRoom) socket.pause();
  }

  /** A client that has not read its answer yet has as much time as with Node's server. */
  #keepAlive(): void {
    const socket = this.#socket;
    this.#hasAnswered = true;
    const keptMs = this.#parts.limits.keepAliveSeconds * 1000 + keepAliveSpareMs;
    const ms = socket.writableNeedDrain ? stalledMs : keptMs;
    if (socket.timeout !== ms) socket.setTimeout(ms);
  }

  /** Hands the connection over to Node, with the bytes that were not answered. */
  #leave(bytes: Buffer): void {
    const socket = this.#socket;
    socket.off("timeout", this.#timedOut);
    socket.off("error", this.#failed);
    socket.off("end", this.#ended);
    socket.off("close", this.#closed);
    socket.off("drain", this.#drained);
    socket.off("data", this.#received);
    socket.setTimeout(0);
    socket.pause();
    socket.unshift(bytes);
    this.#dropEarly();
    this.#parts.leave();
    process.nextTick(() => socket.resume());
  }

  /** The controller is reused for the next request unless it was aborted. */
  readonly #listen = (): Listener => {
    const isFresh = this.#waiting === undefined || this.#waiting.signal.aborted;
    const controller = isFresh ? new AbortController() : (this.#waiting as AbortController);
    this.#waiting = controller;
    if (this.#socket.writable) this.#onLeft = () => controller.abort();
    else controller.abort();
    return {
      signal: controller.signal,
      abort: () => controller.abort(),
      onceOver: (run) => {
        this.#onceOver = run;
      },
    };
  };

  #left(): void {
    this.#onLeft?.();
    this.#onLeft = undefined;
  }

  #stopWaiting(): void {
    this.#onLeft = undefined;
    this.#onceOver?.();
    this.#onceOver = undefined;
  }

  readonly #drained = (): void => {
    if (this.#early !== undefined) return;
    this.#keepAlive();
    this.#socket.resume();
  };

  readonly #timedOut = (): void => {
    if (this.#isAnswering) return;
    // A client that reads nothing would keep an orderly close from finishing.
    if (this.#hasAnswered || !this.#socket.writable) {
      this.#socket.destroy();
      return;
    }
    this.#socket.write(timedOut);
    this.#socket.destroySoon();
  };

  readonly #failed = (): void => {
    this.#socket.destroy();
  };

  /** Like Node's server, closes its side when the client has closed its own. */
  readonly #ended = (): void => {
    this.#left();
    this.#socket.end();
  };

  readonly #closed = (): void => {
    this.#dropEarly();
    this.#left();
    this.#parts.closed();
  };
}

/** Status and headers, without those of the connection. */
function headOf({ from, admission }: Exchange, reply: HttpReply): string {
  const { status, body } = reply;
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nx-request-id: ${from.requestId}\r\n`;
  const headers = headersOf(reply, admission);
  for (const name of Object.keys(headers)) head += `${name}: ${headers[name]}\r\n`;
  return typeof body === "string" ? `${head}content-length: ${Buffer.byteLength(body)}\r\n` : head;
}

/** The early bytes of all connections together. */
class EarlyBytes {
  bytes = 0;
}

/** The Date header, rendered once a second. */
class Dates {
  readonly #clock: Clock;
  #second = Number.NaN;
  #line = "";

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  line(): string {
    const second = Math.floor(this.#clock.nowMs() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#line = `Date: ${new Date(second * 1000).toUTCString()}\r\n`;
    }
    return this.#line;
  }
}
