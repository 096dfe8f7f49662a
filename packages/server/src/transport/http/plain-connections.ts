/**
 * Connections on which plain requests come one after the other, answered without the machinery that
 * Node and Fastify have for all others. The first request that is not plain takes its connection
 * along to them, and there it stays: what it looks like on the wire is the same.
 *
 *   idle        waits for a request; leaves when one comes, when it is closed, or after a time
 *   answering   one request is being answered; more bytes than its own are kept for Node
 *   left        Node has it, or it is closed
 */
import { STATUS_CODES } from "node:http";
import type { Server, Socket } from "node:net";
import type { Identity } from "../../access/identity.ts";
import type { Clock } from "../../clock.ts";
import type { MaybePromise } from "../../maybe-promise.ts";
import type { Origin } from "../../operations/audit-event.ts";
import type { Admission, Answer } from "../../operations/operation.ts";
import type { SentRequest } from "../../telemetry/tracing/tracing.ts";
import { addressOf } from "../address.ts";
import type { Connection, Connections } from "../connections.ts";
import { type Calls, headersOf, type Listener, noQuery } from "./calls.ts";
import { type HttpLimits, stalledMs } from "./node-server.ts";
import { type FoundRoute, type PlainRequest, PlainRoutes, readPlain } from "./plain-request.ts";
import { type AnyRoute, type HttpReply, problem, problemOf } from "./route.ts";

export interface PlainParts {
  readonly calls: Calls;
  readonly routes: readonly AnyRoute[];
  readonly connections: Connections;
  readonly clock: Clock;
  readonly bodyBytesMax: number;
  readonly limits: HttpLimits;
  readonly requestIdOf: (sent: string | undefined) => string;
  readonly tell: TellAnswered;
  readonly tellFailure: (error: unknown, request: { id: string; route: string }) => void;
}

export type TellAnswered = (answered: Answered, sent: SentRequest) => void;

/** A request that was answered. */
export interface Answered {
  readonly requestId: string;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly ms: number;
}

/** Larger ones take their turns with other large bodies. */
const plainBodyBytesMax = 64 * 1024;
/** Clients are told less than what they have, so that none sends into a closing connection. */
const keepAliveSpareMs = 1000;
const timedOut = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n";

export class PlainConnections {
  readonly #parts: PlainParts;
  readonly #routes: PlainRoutes;
  readonly #open = new Set<PlainConnection>();
  readonly #dates: Dates;

  constructor(parts: PlainParts) {
    this.#parts = parts;
    this.#routes = new PlainRoutes(parts.routes);
    this.#dates = new Dates(parts.clock);
  }

  /** Stands between a server and what it does with a connection. */
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

  /** Closes those that wait for nothing; the others follow with their answers. */
  closeIdle(): void {
    for (const each of this.#open) each.closeIfIdle();
  }

  #take(socket: Socket, leave: (socket: Socket) => void): void {
    const parts = { ...this.#parts, routeOf: this.#routeOf, dates: this.#dates };
    const each = new PlainConnection(socket, {
      ...parts,
      leave: () => {
        this.#open.delete(each);
        leave(socket);
      },
      closed: () => this.#open.delete(each),
    });
    this.#open.add(each);
  }

  readonly #routeOf = (path: string): FoundRoute | undefined => this.#routes.find(path);
}

interface ConnectionParts extends PlainParts {
  readonly routeOf: (path: string) => FoundRoute | undefined;
  readonly dates: Dates;
  readonly leave: () => void;
  readonly closed: () => void;
}

/** A request that is being answered. */
interface Current {
  readonly id: string;
  readonly route: AnyRoute;
  readonly sent: SentRequest;
  readonly startedMs: number;
  admission: Admission | undefined;
  isHeld: boolean;
}

class PlainConnection {
  readonly #socket: Socket;
  readonly #parts: ConnectionParts;
  readonly #connection: Connection | undefined;
  readonly #address: string;
  #current: Current | undefined;
  /** What came before its time. */
  #early: Buffer | undefined;
  #waiting: AbortController | undefined;
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
    if (this.#current !== undefined) return;
    // An answer may still be on its way to somebody who reads slowly.
    if (this.#socket.writableLength > 0) this.#socket.destroySoon();
    else this.#socket.destroy();
  }

  readonly #received = (bytes: Buffer): void => {
    // Nobody would get the answer.
    if (!this.#socket.writable) return;
    if (this.#current !== undefined) {
      this.#early = this.#early === undefined ? bytes : Buffer.concat([this.#early, bytes]);
      this.#socket.pause();
      return;
    }
    const request = readPlain(bytes);
    const found = request === undefined ? undefined : this.#parts.routeOf(request.path);
    if (request === undefined || found === undefined || !this.#isWhole(request, bytes)) {
      this.#leave(bytes);
      return;
    }
    this.#serve(request, found, bytes.subarray(request.bodyAt));
  };

  #isWhole({ bodyAt, bodyBytes }: PlainRequest, bytes: Buffer): boolean {
    const { limits } = this.#parts;
    if (bytes.length !== bodyAt + bodyBytes || bodyAt > limits.headerBytesMax) return false;
    return bodyBytes <= Math.min(plainBodyBytesMax, this.#parts.bodyBytesMax);
  }

  #serve(request: PlainRequest, found: FoundRoute, body: Buffer): void {
    const { calls, clock, requestIdOf } = this.#parts;
    const { headers } = request;
    const { route } = found;
    const id = requestIdOf(headers["x-request-id"]);
    const startedMs = clock.monotonicMs();
    const admission = undefined;
    const current: Current = { id, route, sent: request, startedMs, admission, isHeld: false };
    this.#current = current;
    this.#connection?.begin(Number.POSITIVE_INFINITY);
    const from: Origin = { address: this.#address, requestId: id };
    const credentials = {
      authorization: headers.authorization,
      role: headers["x-role"],
      tenant: undefined,
      from,
    };
    const go = (answer: Answer<Identity>): MaybePromise<HttpReply> =>
      answer.ok
        ? this.#call(current, answer.value, { found, headers, body, from })
        : problem(answer);
    try {
      const answer = calls.authorize(route, credentials);
      this.#replySoon(current, answer instanceof Promise ? answer.then(go) : go(answer));
    } catch (error) {
      this.#fail(current, error);
    }
  }

  #call(
    current: Current,
    identity: Identity,
    request: {
      readonly found: FoundRoute;
      readonly headers: PlainRequest["headers"];
      readonly body: Buffer;
      readonly from: Origin;
    },
  ): MaybePromise<HttpReply> {
    const { calls } = this.#parts;
    const { found, headers, from } = request;
    const { route, params } = found;
    current.isHeld = true;
    this.#connection?.hold();
    const admitted = calls.admit(route, identity);
    if (!admitted.ok) return problem(admitted);
    const admission = admitted.value;
    current.admission = admission;
    const body = calls.readBody(route, request.body);
    if (!body.ok) return problem(body);
    const http = { params, query: noQuery, headers, body: body.value };
    return calls.answer(route, http, { identity, admission, from, listen: this.#listen });
  }

  #replySoon(current: Current, reply: MaybePromise<HttpReply>): void {
    if (!(reply instanceof Promise)) {
      this.#reply(current, reply);
      return;
    }
    reply.then(
      (known) => this.#reply(current, known),
      (error: unknown) => this.#fail(current, error),
    );
  }

  #fail(current: Current, error: unknown): void {
    this.#parts.tellFailure(error, { id: current.id, route: current.route.path });
    this.#reply(current, problemOf("internal"));
  }

  #reply(current: Current, reply: HttpReply): void {
    const { calls, clock, dates, limits, tell } = this.#parts;
    const socket = this.#socket;
    this.#current = undefined;
    this.#stopWaiting();
    const { isClosing } = calls;
    const kept = isClosing
      ? "close"
      : `keep-alive\r\nKeep-Alive: timeout=${limits.keepAliveSeconds}`;
    const head = `${headOf(reply, current)}${dates.line()}Connection: ${kept}\r\n\r\n`;
    if (socket.writable) this.#write(head, reply);
    if (current.isHeld) this.#connection?.release();
    this.#connection?.end();
    const ms = clock.monotonicMs() - current.startedMs;
    const { id: requestId, route, sent } = current;
    tell({ requestId, method: route.method, route: route.path, status: reply.status, ms }, sent);
    if (!socket.writable) return;
    if (this.#early !== undefined && !isClosing) {
      this.#leave(this.#early);
      return;
    }
    this.#keepAlive();
    if (isClosing) socket.destroySoon();
  }

  #write(head: string, { body }: HttpReply): void {
    const text = typeof body === "string" ? body : "";
    // Letters of one byte need not be looked at again.
    const isAscii = Buffer.byteLength(text) === text.length;
    const hasRoom = this.#socket.write(head + text, isAscii ? "latin1" : "utf8");
    // Who does not read is not read from.
    if (!hasRoom) this.#socket.pause();
  }

  /** Who has not taken its answer yet may take as long for it as Node gives it. */
  #keepAlive(): void {
    const socket = this.#socket;
    this.#hasAnswered = true;
    const keptMs = this.#parts.limits.keepAliveSeconds * 1000 + keepAliveSpareMs;
    const ms = socket.writableNeedDrain ? stalledMs : keptMs;
    if (socket.timeout !== ms) socket.setTimeout(ms);
  }

  /** From here on Node sees all there is, from the first letter that was not answered. */
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
    this.#parts.leave();
    process.nextTick(() => socket.resume());
  }

  /** Used again by the next request, unless it was of use. */
  readonly #listen = (): Listener => {
    const isFresh = this.#waiting === undefined || this.#waiting.signal.aborted;
    const controller = isFresh ? new AbortController() : (this.#waiting as AbortController);
    this.#waiting = controller;
    if (!this.#socket.writable) controller.abort();
    return {
      signal: controller.signal,
      abort: () => controller.abort(),
      onceOver: (run) => {
        this.#onceOver = run;
      },
    };
  };

  #stopWaiting(): void {
    this.#onceOver?.();
    this.#onceOver = undefined;
  }

  readonly #drained = (): void => {
    if (this.#early !== undefined) return;
    this.#keepAlive();
    this.#socket.resume();
  };

  readonly #timedOut = (): void => {
    if (this.#current !== undefined) return;
    // Who takes nothing would never let it come to an orderly end.
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

  /** Who has hung up is not waited for, as Node has it too. */
  readonly #ended = (): void => {
    this.#waiting?.abort();
    this.#socket.end();
  };

  readonly #closed = (): void => {
    this.#waiting?.abort();
    this.#parts.closed();
  };
}

function headOf(reply: HttpReply, { id, admission }: Current): string {
  const { status, body } = reply;
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nx-request-id: ${id}\r\n`;
  const headers = headersOf(reply, admission);
  for (const name of Object.keys(headers)) head += `${name}: ${headers[name]}\r\n`;
  return typeof body === "string" ? `${head}content-length: ${Buffer.byteLength(body)}\r\n` : head;
}

/** The header that tells the time, made once a second. */
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
