/**
 * A gRPC server on HTTP/2, with TLS or without. It gives each call to the handler of its path; everything that
 * is the same for all of them is done here and in the files beside: refusing what is not gRPC,
 * deadlines, limits, dead connections, and an orderly end.
 *
 * A connection that breaks the protocol is closed; others are not affected.
 */
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { SendTurn } from "@codeq/protocol/wire";
import type { Clock } from "../../core/clock.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import { type Connection, Connections } from "../connections.ts";
import type { ServerTls } from "../tls/server-tls.ts";
import { type FloodLimits, FloodWatch, type WatchedConnection } from "./flood-watch.ts";
import type { GrpcStream, StreamLimits } from "./grpc-stream.ts";
import type { HttpPages } from "./http-pages.ts";
import { metadataOf, readRequestHead } from "./request-headers.ts";
import { AnonymousTurns, ServerStream, stopClientAfterEnd } from "./server-stream.ts";
import { type GrpcEnd, trailersOf } from "./status.ts";
import { UnauthenticatedCalls, type UnauthenticatedLimits } from "./unauthenticated-calls.ts";

export type GrpcHandler = (stream: GrpcStream) => void;

/** Handlers by full path, such as `/workerpb.WorkerStream/Stream`. */
export type GrpcMethods = ReadonlyMap<string, GrpcHandler>;

export interface GrpcLimits extends StreamLimits, FloodLimits, UnauthenticatedLimits {
  readonly streamsPerConnectionMax: number;
  /** The same limit until one of the calls has an authenticated caller. */
  readonly unauthenticatedStreamsPerConnectionMax: number;
  readonly connectionsMax: number;
  /** The same limit for connections without an authenticated caller. */
  readonly anonymousConnectionsMax: number;
  readonly headerBytesMax: number;
  /**
   * How much an authenticated client may send on a call that the server does not read. In frames of one byte each this
   * takes 160 times as much memory, so it is no larger than connections with a long round trip need.
   */
  readonly windowBytes: number;
  /** The same limit for all calls of a connection together. */
  readonly connectionWindowBytes: number;
  /**
   * Calls without an authenticated caller that a connection may make at once, and in a second; the connection is closed
   * beyond that. Clients with a valid token, and health checks, make few.
   */
  readonly anonymousCallsBurst: number;
  readonly anonymousCallsPerSecond: number;
}

export const grpcLimits: GrpcLimits = {
  messageBytesMax: 4 * 1024 * 1024,
  unauthenticatedMessageBytesMax: 32 * 1024,
  unauthenticatedWindowBytes: 64 * 1024,
  streamsPerConnectionMax: 256,
  unauthenticatedStreamsPerConnectionMax: 16,
  connectionsMax: 10_000,
  anonymousConnectionsMax: 10_000,
  unauthenticatedCallsMax: 10_000,
  unauthenticatedBytesMax: 16 * 1024 * 1024,
  floodCheckMs: 250,
  floodBytesMax: 1024 * 1024,
  headerBytesMax: 16 * 1024,
  windowBytes: 256 * 1024,
  connectionWindowBytes: 4 * 1024 * 1024,
  anonymousCallsBurst: 32,
  anonymousCallsPerSecond: 16,
  sendBytesHigh: 1024 * 1024,
  sendBytesHighCrowded: 64 * 1024,
  sendBytesTotal: 128 * 1024 * 1024,
  sendBytesMax: 16 * 1024 * 1024,
  stallMs: 60_000,
  lingerMs: 10_000,
};

export interface GrpcServerOptions {
  readonly methods: GrpcMethods;
  readonly limits: GrpcLimits;
  readonly keepalive: KeepaliveOptions;
  /** Undefined for HTTP/2 without TLS (prior knowledge). */
  readonly tls?: ServerTls | undefined;
  /** Answers requests that are not gRPC; undefined for a server that closes their connections. */
  readonly pages?: HttpPages | undefined;
  readonly logger: Logger;
  readonly clock: Clock;
}

export interface ListenAddress {
  readonly host?: string;
  /** Zero for any free port. */
  readonly port: number;
}

export interface GrpcServer extends AsyncDisposable {
  readonly connections: number;
  /** Connections closed for others since the start. */
  readonly connectionsGivenUp: number;
  /** Connections closed since the start because they sent mostly empty or control frames. */
  readonly connectionsCut: number;
  readonly streams: number;
  listen(address: ListenAddress): Promise<AddressInfo>;
  /**
   * Accepts no new connections or calls, notifies clients and handlers, and waits for open calls. Calls that
   * are open after the grace period end as UNAVAILABLE.
   */
  close(graceMs: number): Promise<void>;
}

export function createGrpcServer(options: GrpcServerOptions): GrpcServer {
  return new Http2GrpcServer(options);
}

/** How long the last statuses may take to be sent before the connections are closed. */
const lastStatusMs = 200;
/** Memory of one connection in the HTTP/2 library: headers and outgoing frames. */
const sessionMemoryMb = 64;
/** Sustained rate of calls that a client may cancel; a burst may have twice the calls that can be open. */
const resetsPerSecond = 33;
const shuttingDown: GrpcEnd = { status: "UNAVAILABLE", message: "the server is shutting down" };

class Http2GrpcServer implements GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #server: Http2Server | Http2SecureServer;
  readonly #connections: Connections;
  readonly #peers = new Map<ServerHttp2Session, Peer>();
  readonly #floods: FloodWatch;
  readonly #streams = new Set<ServerStream>();
  readonly #unauthenticated: UnauthenticatedCalls;
  readonly #turn = new SendTurn((run) => void setImmediate(run));
  readonly #anonymousTurns = new AnonymousTurns();
  /** An attacker connects again at once. */
  readonly #warnings: SpacedWarnings;
  #connectionsCut = 0;
  #onIdle: (() => void) | undefined;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    const { limits, logger, tls, clock, pages } = options;
    this.#warnings = new SpacedWarnings(logger, clock);
    this.#server = createHttp2Server(limits, tls);
    pages?.watch(this.#server, tls !== undefined);
    this.#connections = new Connections({
      max: limits.connectionsMax,
      anonymousMax: limits.anonymousConnectionsMax,
      listener: "grpc",
      logger,
    });
    this.#connections.watch(this.#server);
    this.#floods = new FloodWatch(limits, clock);
    this.#unauthenticated = new UnauthenticatedCalls(limits);
    this.#server.on("session", (session) => this.#opened(session));
    this.#server.on("stream", (stream, headers) => this.#called(stream, headers));
    this.#server.on("sessionError", (error) => logger.debug("gRPC connection broke", { error }));
  }

  get connections(): number {
    return this.#connections.size;
  }

  get connectionsCut(): number {
    return this.#connectionsCut;
  }

  get connectionsGivenUp(): number {
    return this.#connections.givenUp;
  }

  get streams(): number {
    return this.#streams.size;
  }

  listen({ host, port }: ListenAddress): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ port, ...(host === undefined ? {} : { host }) }, () => {
        this.#server.off("error", reject);
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  async close(graceMs: number): Promise<void> {
    const stopped = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of this.#peers.keys()) session.close();
    for (const stream of this.#streams) stream.goAway();
    await this.#idle(graceMs);
    for (const stream of this.#streams) stream.fail(shuttingDown, "shutdown");
    await this.#idle(lastStatusMs);
    for (const session of this.#peers.keys()) session.destroy();
    this.#connections.destroyAll();
    await stopped;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close(0);
  }

  /** Resolves when no connection is left, or after this time. */
  #idle(waitMs: number): Promise<void> {
    if (this.#peers.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel = this.#options.clock.after(waitMs, resolve);
      this.#onIdle = () => {
        cancel();
        resolve();
      };
    });
  }

  #opened(session: ServerHttp2Session): void {
    const { limits, keepalive, clock, logger } = this.#options;
    const peer = new Peer(session, this.#connections.of(session.socket), (address) => {
      this.#connectionsCut += 1;
      this.#warnings.warn("gRPC connection closed: it sends mostly empty or control frames", {
        peer: address,
      });
    });
    this.#peers.set(session, peer);
    this.#floods.add(peer);
    session.setLocalWindowSize(limits.connectionWindowBytes);
    session.on("error", (error) => {
      logger.debug("gRPC connection broke", { peer: peer.address, error });
    });
    session.once("close", () => {
      this.#peers.delete(session);
      this.#floods.delete(peer);
      if (this.#peers.size === 0) this.#onIdle?.();
    });
    watchConnection(session, keepalive, clock);
  }

  #called(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const { methods, clock } = this.#options;
    const head = readRequestHead(headers);
    const handler = head.kind === "call" ? methods.get(head.path) : undefined;
    if (handler === undefined)
      this.#countAnonymous(stream.session as ServerHttp2Session | undefined);
    if (head.kind === "not_grpc") {
      if (this.#options.pages?.answerStream(stream, headers) === true) return;
      refuse(stream, { ":status": head.httpStatus }, clock);
      return;
    }
    if (head.kind === "refused") {
      refuse(stream, grpcHeaders(head.end), clock);
      return;
    }
    if (handler === undefined) {
      refuse(stream, grpcHeaders(unknownPath(head.path, methods)), clock);
      return;
    }
    this.#open(stream, headers, head).start(handler);
  }

  /** Closes a connection that makes too many calls without a valid token. */
  #countAnonymous(session: ServerHttp2Session | undefined): void {
    const peer = session && this.#peers.get(session);
    const { clock, limits } = this.#options;
    if (peer === undefined || peer.mayCallAnonymously(limits, clock.monotonicMs())) return;
    this.#connectionsCut += 1;
    this.#warnings.warn("gRPC connection closed: it makes too many calls without a valid token", {
      peer: peer.address,
    });
    peer.connection?.socket.destroy();
  }

  #open(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    head: { readonly path: string; readonly timeoutMs: number | undefined },
  ): ServerStream {
    const { limits, clock, logger } = this.#options;
    // The session is undefined when the stream is closed already.
    const session = stream.session as ServerHttp2Session | undefined;
    const peer = session && this.#peers.get(session);
    const call = new ServerStream({
      stream,
      metadata: metadataOf(headers),
      limits,
      clock,
      logger,
      turn: this.#turn,
      anonymousTurns: this.#anonymousTurns,
      path: head.path,
      timeoutMs: head.timeoutMs,
      peer: peer?.address ?? "",
      hold: () => {
        this.#unauthenticated.delete(call);
        peer?.authenticated(limits);
        return () => peer?.connection?.release();
      },
      isConnected: () => session !== undefined && !session.destroyed,
      onRead: (bytes) => peer?.countRead(bytes),
      onHeld: (bytes) => this.#unauthenticated.hold(call, bytes),
    });
    this.#streams.add(call);
    peer?.calls.add(call);
    stream.once("close", () => {
      this.#streams.delete(call);
      this.#unauthenticated.delete(call);
      peer?.calls.delete(call);
      if (!call.isAuthenticated) this.#countAnonymous(session);
    });
    this.#unauthenticated.add(call, peer?.connection);
    return call;
  }
}

function createHttp2Server(
  limits: GrpcLimits,
  tls: ServerTls | undefined,
): Http2Server | Http2SecureServer {
  const options = {
    maxSessionMemory: sessionMemoryMb,
    streamResetBurst: limits.streamsPerConnectionMax * 2,
    streamResetRate: resetsPerSecond,
    settings: {
      enablePush: false,
      initialWindowSize: limits.unauthenticatedWindowBytes,
      maxConcurrentStreams: Math.min(
        limits.unauthenticatedStreamsPerConnectionMax,
        limits.streamsPerConnectionMax,
      ),
      maxHeaderListSize: limits.headerBytesMax,
    },
  };
  if (tls === undefined) return createServer(options);
  const server = createSecureServer({ ...options, ...tls.options });
  tls.attach(server);
  return server;
}

function grpcHeaders(end: GrpcEnd): OutgoingHttpHeaders {
  return { ":status": 200, "content-type": "application/grpc", ...trailersOf(end) };
}

/** The texts of other servers, by which clients distinguish a missing service from a missing method. */
function unknownPath(path: string, methods: GrpcMethods): GrpcEnd {
  const [, service = "", method = ""] = /^\/([^/]+)\/(.*)$/.exec(path) ?? [];
  const hasService = [...methods.keys()].some((known) => known.startsWith(`/${service}/`));
  const message = hasService
    ? `unknown method ${method} for service ${service}`
    : `unknown service ${service}`;
  return { status: "UNIMPLEMENTED", message };
}

function refuse(stream: ServerHttp2Stream, headers: OutgoingHttpHeaders, clock: Clock): void {
  // The call is over anyway; the connection reports its own errors.
  stream.on("error", () => {});
  if (stream.destroyed) return;
  stream.respond(headers, { endStream: true });
  stream.resume();
  stopClientAfterEnd(stream, clock);
}

interface KeepaliveOptions {
  /** Zero for no pings. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/**
 * Detects dead connections. A ping is sent at every interval; a connection is closed with all its calls when
 * the ping is not answered in time, or when a new connection does not speak HTTP/2 in that time.
 */
function watchConnection(
  session: Http2Session,
  { intervalMs, timeoutMs }: KeepaliveOptions,
  clock: Clock,
): void {
  const giveUp = () => session.destroy();
  let cancel = clock.after(timeoutMs, giveUp);
  const rest = () => {
    cancel();
    cancel = intervalMs > 0 ? clock.after(intervalMs, ping) : () => {};
  };
  const ping = () => {
    if (session.destroyed) return;
    cancel = clock.after(timeoutMs, giveUp);
    session.ping((error) => {
      if (error === null) rest();
    });
  };
  // Both sides send their settings first.
  session.once("remoteSettings", rest);
  session.once("close", () => cancel());
}

/** The other end of a connection, with what the server knows about it beyond HTTP/2. */
class Peer implements WatchedConnection {
  /** Kept here because a broken connection does not know its address. */
  readonly address: string;
  /** Undefined when the connection was closed early. */
  readonly connection: Connection | undefined;
  readonly calls: Set<ServerStream> = new Set();
  readonly #session: ServerHttp2Session;
  readonly #onFlood: (address: string) => void;
  #readBytes = 0;
  #isAuthenticated = false;
  #anonymousCalls = 0;
  #countedMs = 0;

  constructor(
    session: ServerHttp2Session,
    connection: Connection | undefined,
    onFlood: (address: string) => void,
  ) {
    this.address = addressOf(session);
    this.connection = connection;
    this.#session = session;
    this.#onFlood = onFlood;
  }

  /** One of its calls has an authenticated caller: the connection gets its full limits. */
  authenticated({ windowBytes, streamsPerConnectionMax }: GrpcLimits): void {
    if (!this.#isAuthenticated && !this.#session.destroyed) {
      this.#isAuthenticated = true;
      this.#session.settings({
        initialWindowSize: windowBytes,
        maxConcurrentStreams: streamsPerConnectionMax,
      });
    }
    this.connection?.hold();
  }

  /** Counts a call without an authenticated caller; false when there were too many. */
  mayCallAnonymously(
    { anonymousCallsBurst: burst, anonymousCallsPerSecond }: GrpcLimits,
    nowMs: number,
  ): boolean {
    if (this.#isAuthenticated) return true;
    const refilled = ((nowMs - this.#countedMs) / 1000) * anonymousCallsPerSecond;
    this.#anonymousCalls = Math.max(0, this.#anonymousCalls - refilled) + 1;
    this.#countedMs = nowMs;
    return this.#anonymousCalls <= burst;
  }

  countRead(bytes: number): void {
    this.#readBytes += bytes;
  }

  /** With TLS, the decrypted bytes. */
  get bytesRead(): number {
    return this.#session.destroyed ? 0 : this.#session.socket.bytesRead;
  }

  get messageBytes(): number {
    let bytes = this.#readBytes;
    for (const { unreadBytes } of this.calls) bytes += unreadBytes;
    return bytes;
  }

  countUnread(): void {
    for (const call of this.calls) call.countUnread();
  }

  cut(): void {
    this.#onFlood(this.address);
    this.#session.destroy();
  }
}

function addressOf({ socket }: ServerHttp2Session): string {
  const { remoteAddress = "", remotePort = 0 } = socket;
  return remoteAddress.includes(":")
    ? `[${remoteAddress}]:${remotePort}`
    : `${remoteAddress}:${remotePort}`;
}
