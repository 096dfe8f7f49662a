/** A connection to log servers that reconnects by itself, without a time limit. */
import { type ConnectionOptions, checkServerIdentity } from "node:tls";
import { connect, type NatsConnection, type TlsOptions } from "@nats-io/transport-node";

export interface NatsServersOptions {
  /** Such as `nats://10.0.0.1:4222`; a user and password may stand in front of the host. */
  readonly urls: readonly string[];
  /** The name of the connection, which the servers show. */
  readonly name: string;
  /** Undefined for a connection without a client certificate. */
  readonly tls?: NatsTls | undefined;
}

/** Paths of PEM files. */
export interface NatsTls {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string;
}

export function connectNats(options: NatsServersOptions): Promise<NatsConnection> {
  const { user, pass } = credentialsOf(options.urls);
  return connect({
    servers: options.urls.map(withoutCredentials),
    name: options.name,
    ...(user === "" ? {} : { user, pass }),
    ...(options.tls === undefined ? {} : { tls: tlsOptions(options.urls, options.tls) }),
    // Otherwise the client captures a stack trace for every request, also for successful ones.
    noAsyncTraces: true,
    waitOnFirstConnect: true,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 100,
    reconnectJitter: 50,
    pingInterval: 1000,
    maxPingOut: 2,
  });
}

/**
 * The NATS client does not pass the address to TLS, so the certificate has to name one of the servers.
 */
function tlsOptions(urls: readonly string[], files: NatsTls): TlsOptions {
  const hosts = urls.map((url) => new URL(url).hostname.replace(/^\[(.*)\]$/, "$1"));
  const identity: Pick<ConnectionOptions, "checkServerIdentity"> = {
    checkServerIdentity: (_host, certificate) => {
      const problems = hosts.map((host) => checkServerIdentity(host, certificate));
      return problems.includes(undefined) ? undefined : problems[0];
    },
  };
  return { ...files, ...identity };
}

function credentialsOf(urls: readonly string[]): { readonly user: string; readonly pass: string } {
  const { username, password } = new URL(urls[0] ?? "nats://localhost");
  return { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
}

function withoutCredentials(text: string): string {
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url.href;
}
