/**
 * The configuration of a nats-server that stores the logs of a cluster: every append is synced before it
 * is acknowledged, and both clients and other servers have to know a password.
 */
import { createHmac } from "node:crypto";
import type { NatsTls } from "@codeq/engine";

export interface NatsConfig {
  /** The name of its node; unique in the cluster. */
  readonly serverName: string;
  readonly clientAddress: string;
  /** The addresses of this and the other servers; undefined for a single server. */
  readonly routes: NatsRoutes | undefined;
  readonly directory: string;
  readonly password: string;
  readonly storeBytesMax: number;
  /** Clients have to show a certificate of the same CA. Undefined for no TLS. */
  readonly tls?: NatsTls | undefined;
}

export interface NatsRoutes {
  readonly address: string;
  /** The addresses of all servers, this one included. */
  readonly all: readonly string[];
}

/** Room for the largest group of changes: a nearly full group with one more large task. */
const payloadBytesMax = 8 * 1024 * 1024;
const natsUser = "codeq";
/** This user may list the servers and remove one. */
const systemUser = "system";

export function natsConfigText(config: NatsConfig): string {
  const { serverName, clientAddress, directory, password, routes } = config;
  const login = loginOf(natsUser, password);
  const tls = config.tls === undefined ? [] : [tlsBlock(config.tls)];
  const lines = [
    ...tls,
    `server_name: ${quoted(serverName)}`,
    `listen: ${quoted(clientAddress)}`,
    `pid_file: ${quoted(`${directory}/nats.pid`)}`,
    `max_payload: ${payloadBytesMax}`,
    "accounts {",
    `  codeq { jetstream: enabled, users: [{ ${login} }] }`,
    `  system { users: [{ ${loginOf(systemUser, password)} }] }`,
    "}",
    "system_account: system",
    "jetstream {",
    `  store_dir: ${quoted(directory)}`,
    // The default syncs every two minutes: servers that lose power together then lose what they had.
    "  sync_interval: always",
    `  max_file_store: ${config.storeBytesMax}`,
    "  max_memory_store: 0",
    "}",
  ];
  if (routes !== undefined) {
    const urls = routes.all.map((address) => quoted(natsUrl(address, password)));
    lines.push(
      "cluster {",
      "  name: codeq",
      `  listen: ${quoted(routes.address)}`,
      `  authorization { ${login} }`,
      ...tls.map((line) => `  ${line}`),
      `  routes: [${urls.join(", ")}]`,
      "}",
    );
  }
  return `${lines.join("\n")}\n`;
}

function tlsBlock({ certFile, keyFile, caFile }: NatsTls): string {
  const [cert, key, ca] = [certFile, keyFile, caFile].map(quoted);
  return `tls { cert_file: ${cert}, key_file: ${key}, ca_file: ${ca}, verify: true }`;
}

/** Derived from the secret of the cluster, so that no second secret has to be configured. */
export function natsPassword(clusterSecret: string): string {
  return createHmac("sha256", clusterSecret).update("nats").digest("base64url");
}

export function natsUrl(address: string, password: string, user: string = natsUser): string {
  return `nats://${user}:${encodeURIComponent(password)}@${address}`;
}

export function natsSystemUrl(address: string, password: string): string {
  return natsUrl(address, password, systemUser);
}

function loginOf(user: string, password: string): string {
  return `user: ${user}, password: ${quoted(password)}`;
}

const quoted = (text: string): string => JSON.stringify(text);
