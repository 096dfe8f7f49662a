/** The Node server below Fastify, with or without TLS, and with its limits. */
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import type { Config } from "../../config/settings.ts";
import type { Connections } from "../connections.ts";
import type { ServerTls } from "../tls/server-tls.ts";
import type { FairTurns } from "./fair-turns.ts";
import type { PlainConnections } from "./plain-connections.ts";

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
    if (connection === undefined) handler(request, response);
    else
      turns.take(connection, () => {
        if (!socket.destroyed) handler(request, response);
      });
  };
}

/**
 * Closes a connection without parsing the rest of what has arrived on it. Node would parse the whole packet
 * and create an error for every request in it, at twenty times the cost.
 */
function cutOff(socket: Socket): void {
  stopParsing(socket);
  socket.destroy();
}

/**
 * Has Node parse nothing behind the request that it parses now. This uses a property that Node does not document; without
 * it the requests behind are only more expensive.
 */
export function stopParsing(
  socket: Socket & { readonly parser?: { onIncoming?: () => number } | null },
): void {
  const noFurtherData = 2;
  if (socket.parser) socket.parser.onIncoming = () => noFurtherData;
}

function openServer(
  handler: RequestListener,
  options: ServerOptions,
  { plain, tls }: Pick<NodeServerOptions, "plain" | "tls">,
): Server {
  if (tls === undefined) {
    const server = createServer(options, handler);
    plain.watch(server, "connection");
    return server;
  }
  const server = createSecureServer({ ...options, ...tls.options }, handler);
  plain.watch(server, "secureConnection");
  tls.attach(server);
  return server;
}
