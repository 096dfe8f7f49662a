/** The server of Node that Fastify stands on: with TLS or without, and with its limits. */
import { createServer, type RequestListener, type Server, type ServerOptions } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { ConnectionSettings } from "../../config/settings.ts";
import type { Connections } from "../connections.ts";
import type { ServerTls } from "../tls/server-tls.ts";

export type HttpLimits = Pick<
  ConnectionSettings,
  | "connectionsMax"
  | "headersTimeoutSeconds"
  | "requestTimeoutSeconds"
  | "keepAliveSeconds"
  | "headerBytesMax"
>;

export interface NodeServerOptions {
  readonly limits: HttpLimits;
  readonly connections: Connections;
  /** Undefined for plain HTTP. */
  readonly tls: ServerTls | undefined;
}

/** How often the times of the connections are looked at. */
const checkIntervalMs = 1000;
/** No bytes in either direction for so long: the longest wait for an event takes half of it. */
const stalledMs = 120_000;

export function createNodeServer(handler: RequestListener, parts: NodeServerOptions): Server {
  const { limits, connections, tls } = parts;
  const options = {
    headersTimeout: limits.headersTimeoutSeconds * 1000,
    requestTimeout: limits.requestTimeoutSeconds * 1000,
    keepAliveTimeout: limits.keepAliveSeconds * 1000,
    connectionsCheckingInterval: checkIntervalMs,
    maxHeaderSize: limits.headerBytesMax,
  };
  const server = openServer(handler, options, tls);
  server.setTimeout(stalledMs);
  connections.watch(server);
  return server;
}

function openServer(handler: RequestListener, options: ServerOptions, tls?: ServerTls): Server {
  if (tls === undefined) return createServer(options, handler);
  const server = createSecureServer({ ...options, ...tls.options }, handler);
  tls.attach(server);
  return server;
}
