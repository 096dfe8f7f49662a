/** The Node server below Fastify, with or without TLS, and with its limits. */
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import type { Config } from "../../config/settings.ts";
import type { Connections } from "../connections.ts";
import type { ServerTls } from "../tls/server-tls.ts";
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
  /** What need not go through the server at all. */
  readonly plain: PlainConnections;
  /** Undefined for HTTP without TLS. */
  readonly tls: ServerTls | undefined;
}

/** How often the times of the connections are looked at. */
const checkIntervalMs = 1000;
/** Requests on one connection that wait for their answers. */
const unansweredMax = 32;
/** No bytes in either direction for so long: the longest wait for an event takes half of it. */
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
  const limited = limitUnanswered(handler, connections);
  const server = openServer(limited, options, { plain, tls });
  server.setTimeout(stalledMs);
  connections.watch(server);
  return server;
}

/**
 * Whoever sends on without waiting for answers is served in the order of arrival, so a few hundred
 * requests in one packet would hold up everybody else. Clients of HTTP/1.1 hardly ever do that.
 */
function limitUnanswered(handler: RequestListener, connections: Connections): RequestListener {
  return (request, response) => {
    // Closed meanwhile: what is left of its requests leads nowhere.
    if (request.socket.destroyed) return;
    const connection = connections.of(request.socket);
    if (connection?.begin(unansweredMax) === false) {
      cutOff(request.socket);
      return;
    }
    response.once("close", () => connection?.end());
    handler(request, response);
  };
}

/**
 * Closes a connection, and reads nothing more of what has arrived on it. The second half is a matter
 * of cost alone, which is why it may rest on something that Node does not document: it would go on
 * through the packet and make an error of every request in it, for twenty times the price.
 */
function cutOff(socket: Socket & { readonly parser?: { onIncoming?: () => number } | null }): void {
  const noFurtherData = 2;
  if (socket.parser) socket.parser.onIncoming = () => noFurtherData;
  socket.destroy();
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
