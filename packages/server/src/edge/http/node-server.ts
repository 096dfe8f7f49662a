/** The Node server below Fastify, with or without TLS, and with its limits. */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
} from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import type { Config } from "../../config/settings.ts";
import type { Connections } from "../connections.ts";
import type { ServerTls } from "../tls/server-tls.ts";
import type { FairTurns } from "./fair-turns.ts";
import type { PlainConnections } from "./plain/plain-connections.ts";

export type HttpLimits = Pick<
  Config,
  | "connectionsMax"
  | "headersTimeoutSeconds"
  | "requestTimeoutSeconds"
  | "keepAliveSeconds"
  | "headerBytesMax"
>;

export interface NodeServerOptions {
  readonly limits: HttpLimits;
  readonly connections: Connections;
  /** Answers plain requests before they reach the server. */
  readonly plain: PlainConnections;
  /** Undefined for HTTP without TLS. */
  readonly tls: ServerTls | undefined;
  /** Called for a request whose connection was closed before the request arrived. */
  readonly onAborted: () => void;
  readonly turns: FairTurns;
}

/** How often Node checks the timeouts of connections. */
const checkIntervalMs = 1000;
/** Unanswered requests on one connection. */
const unansweredMax = 32;
/** A connection without traffic is closed after this time, twice the longest wait for an event. */
export const stalledMs = 120_000;

export function createNodeServer(handler: RequestListener, parts: NodeServerOptions): Server {
  const { limits, connections, plain, tls } = parts;
  const options = {
    headersTimeout: limits.headersTimeoutSeconds * 1000,
    requestTimeout: limits.requestTimeoutSeconds * 1000,
    keepAliveTimeout: limits.keepAliveSeconds * 1000,
    connectionsCheckingInterval: checkIntervalMs,
    maxHeaderSize: limits.headerBytesMax,
  };
  const limited = limitUnanswered(handler, parts);
  const server = openServer(limited, options, { plain, tls });
  // Without a listener, Node answers these requests at once, as many as there are in a packet.
  server.on("checkExpectation", limited);
  server.setTimeout(stalledMs);
  connections.watch(server);
  return server;
}

/**
 * Pipelined requests are served in the order of arrival, so a few hundred requests in one packet would delay
 * all other clients: one is served in a turn, and few may wait. Clients of HTTP/1.1 hardly ever pipeline.
 */
function limitUnanswered(
  handler: RequestListener,
  { connections, onAborted, turns }: NodeServerOptions,
): RequestListener {
  return (request, response) => {
    const { socket } = request;
    // The connection was closed meanwhile; its requests cannot be answered. A connection that was reset has no address.
    if (socket.destroyed || socket.remoteAddress === undefined) {
      onAborted();
      socket.destroy();
      return;
    }
    const connection = connections.of(request.socket);
    const mayWait = connection?.begin(unansweredMax);
    if (mayWait === false || (connection?.isPipelined && connections.isCrowdedByPipelines)) {
      cutOff(request.socket);
      return;
    }
    response.once("close", () => connection?.end());
    if (isChunked(request)) limitPieces(request);
    if (connection === undefined) handler(request, response);
    else
      turns.take(connection, () => {
        if (!socket.destroyed) handler(request, response);
      });
    if (response.writableEnded) answeredAtOnce.add(request);
  };
}

/** A chunk with fewer bytes costs as much as a chunk of this size. */
const pieceBytesMax = 32;
/** Small chunks of one body, minus the larger ones. */
const piecesMax = 1000;
const tooManyPieces =
  "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json; charset=utf-8\r\n\r\n" +
  `{"error":"invalid body: it has too many chunks of less than ${pieceBytesMax} bytes; send larger chunks","code":"invalid_body"}`;

/** Closes the connection when the body has too many small chunks, also when no handler reads them. */
function limitPieces(request: IncomingMessage): void {
  const { socket } = request;
  const push = request.push.bind(request);
  let pieces = 0;
  request.push = (chunk: Buffer | null, encoding) => {
    if (chunk === null) return push(chunk, encoding);
    pieces = Math.max(0, pieces + (chunk.length < pieceBytesMax ? 1 : -1));
    if (pieces <= piecesMax) return push(chunk, encoding);
    // The rest of the packet is parsed in any case.
    if (!socket.destroyed) {
      socket.write(tooManyPieces);
      cutOff(socket);
    }
    return false;
  };
}

const answeredAtOnce = new WeakSet<IncomingMessage>();

/**
 * Parses no chunk of a request whose body is not wanted, which is decided when the request has come. The parser runs
 * through a whole packet, which may have ten thousand chunks.
 */
export function skipChunks(
  socket: ParsedSocket,
  isUnwanted: (request: IncomingMessage) => boolean,
): void {
  const { parser } = socket;
  const take = parser?.onIncoming;
  if (!parser || take === undefined) return;
  parser.onIncoming = (request, ...more) => {
    const taken = take(request, ...more);
    return isChunked(request) && isUnwanted(request) ? noFurtherData : taken;
  };
}

/** Whether the length of the body is not announced. */
export function isChunked({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined;
}

/**
 * Closes a connection without parsing the rest of what has arrived on it. Node would parse the whole packet
 * and create an error for every request in it, at twenty times the cost.
 */
function cutOff(socket: ParsedSocket): void {
  stopParsing(socket);
  socket.destroy();
}

/** What Node does not document. */
interface ParsedSocket extends Socket {
  readonly parser?: {
    onIncoming?: (request: IncomingMessage, ...more: unknown[]) => number;
  } | null;
}

/** Returned to the parser: what follows is not HTTP. */
const noFurtherData = 2;

/**
 * Has Node parse nothing behind the request that it parses now. This uses a property that Node does not document; without
 * it the requests behind are only more expensive.
 */
export function stopParsing(socket: ParsedSocket): void {
  if (socket.parser) socket.parser.onIncoming = () => noFurtherData;
}

function skipUnwantedChunks(socket: Socket): void {
  skipChunks(socket, (request) => answeredAtOnce.has(request));
}

function openServer(
  handler: RequestListener,
  options: ServerOptions,
  { plain, tls }: Pick<NodeServerOptions, "plain" | "tls">,
): Server {
  if (tls === undefined) {
    const server = createServer(options, handler).on("connection", skipUnwantedChunks);
    plain.watch(server, "connection");
    return server;
  }
  const server = createSecureServer({ ...options, ...tls.options }, handler);
  server.on("secureConnection", skipUnwantedChunks);
  plain.watch(server, "secureConnection");
  tls.attach(server);
  return server;
}
