/**
 * The listeners: their addresses and whether other machines can reach them, the rules between their settings, and
 * how many connections they accept. A connection is an open file for the system, and so is every file of the
 * storage. Storage that cannot open one more file fails permanently, so its share is reserved first, and connections
 * get the rest.
 */
import { readFileSync } from "node:fs";
import { BlockList, isIP } from "node:net";
import { settingTable } from "./setting-table.ts";
import type { Config, SettingName, Settings } from "./settings.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Reads `host:port`, or `:port` with the host of the HTTP API; undefined for `off`. */
export function streamAddressOf(text: string, httpHost: string): Address | undefined {
  if (text === "off") return undefined;
  const colon = text.lastIndexOf(":");
  const host = text.slice(0, colon).replace(/^\[|\]$/g, "") || httpHost;
  return { host, port: Number(text.slice(colon + 1)) };
}

/** The listeners without encryption that other machines can reach, as `host:port`. */
export function exposedAddresses(
  settings: AddressSettings & Pick<Settings, "tlsCertFile">,
): string[] {
  return settings.tlsCertFile === "" ? reachableAddresses(settings) : [];
}

type AddressSettings = Pick<Settings, "host" | "port" | "workerStreamAddr" | "producerStreamAddr">;

/** The listeners that other machines can reach, as `host:port`. */
export function reachableAddresses(settings: AddressSettings): string[] {
  const { host, port, workerStreamAddr, producerStreamAddr } = settings;
  const streams = [workerStreamAddr, producerStreamAddr].map((text) => streamAddressOf(text, host));
  return [{ host, port }, ...streams]
    .filter((address) => address !== undefined)
    .filter((address) => !isLoopback(address.host))
    .map(show);
}

/** A host name other than localhost may resolve to any address. */
export function isLoopback(host: string): boolean {
  const family = isIP(host);
  if (family === 0) return host.toLowerCase() === "localhost";
  const loopback = new BlockList();
  loopback.addSubnet("127.0.0.0", 8, "ipv4");
  loopback.addAddress("::1", "ipv6");
  return loopback.check(host, family === 6 ? "ipv6" : "ipv4");
}

function show({ host, port }: Address): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

export function connectionProblems(
  settings: Settings,
  touched: ReadonlySet<SettingName>,
): string[] {
  const { tlsCertFile, tlsKeyFile, tlsClientCaFile } = settings;
  const problems: string[] = [];
  if ((tlsCertFile === "") !== (tlsKeyFile === "")) {
    const [set, missing] =
      tlsKeyFile === "" ? ["tlsCertFile", "tlsKeyFile"] : ["tlsKeyFile", "tlsCertFile"];
    problems.push(`${missing}: required because ${set} is set; a certificate needs its key`);
  }
  if (tlsClientCaFile !== "" && tlsCertFile === "" && tlsKeyFile === "") {
    problems.push(
      "tlsClientCaFile: client certificates need a server with TLS; set " +
        "tlsCertFile and tlsKeyFile",
    );
  }
  if (touched.has("tlsClientAuth") && !touched.has("tlsClientCaFile")) {
    problems.push(
      "tlsClientAuth: has no effect without the CAs of clients; set tlsClientCaFile, or " +
        "remove tlsClientAuth",
    );
  }
  return problems;
}

export function connectionWarnings(settings: Settings): string[] {
  const exposed = exposedAddresses(settings);
  if (exposed.length === 0 || settings.insecure) return [];
  return [
    `NO TLS on ${exposed.join(", ")}: anyone on the network can read and change tokens and ` +
      "payloads; set tlsCertFile and tlsKeyFile, or insecure: true behind a proxy that terminates TLS",
  ];
}

/** Reserved for storage, log, artifacts, webhooks and Node itself; LevelDB alone may use a fifth. */
const restPercent = 55;
const restMax = 1000;
/** An empty shard has 16 open files: its log, its store, their locks and its thread. */
const filesOfShard = 24;
const fewConnections = 1000;
const defaultConnectionsMax = settingTable.connectionsMax.initial;

/** The number of connections per listener: `connectionsMax`, or fewer if there are too few files. */
export function connectionsThatFit(config: Config, openFilesMax: number | undefined): number {
  const { connectionsMax } = config;
  if (openFilesMax === undefined) return connectionsMax;
  const rest =
    Math.min(restMax, Math.ceil((openFilesMax * restPercent) / 100)) + filesOfShards(config);
  const fitting = Math.floor((openFilesMax - rest) / listenersOf(config));
  return Math.max(1, Math.min(connectionsMax, fitting));
}

/** How to get the configured number of connections; undefined if all of them fit. */
export function openFilesAdvice(
  config: Config,
  openFilesMax: number | undefined,
): string | undefined {
  const fitting = connectionsThatFit(config, openFilesMax);
  const { connectionsMax } = config;
  if (fitting === connectionsMax) return undefined;
  const needed = connectionsMax * listenersOf(config) + restMax + filesOfShards(config);
  return (
    `the system allows ${openFilesMax} open files, so each listener accepts ${fitting} connections ` +
    `instead of ${connectionsMax} (connectionsMax); allow ${needed} open files (ulimit -n, ` +
    "LimitNOFILE) for all of them"
  );
}

/** Files of the shards in addition to those of a single store. */
function filesOfShards({ shards }: Config): number {
  return shards === 1 ? 0 : shards * filesOfShard;
}

/**
 * Whether a start warns about the lower number. The default of `connectionsMax` is more than most servers need, so
 * a start warns only if an operator configured more connections than fit, or if few connections are left.
 */
export function isLoweredNotably(config: Config, openFilesMax: number | undefined): boolean {
  const fitting = connectionsThatFit(config, openFilesMax);
  if (fitting === config.connectionsMax) return false;
  return config.connectionsMax !== defaultConnectionsMax || fitting < fewConnections;
}

function listenersOf({ workerStreamAddr, producerStreamAddr }: Config): number {
  return 1 + [workerStreamAddr, producerStreamAddr].filter((address) => address !== "off").length;
}

/** Undefined if the system does not report a limit. */
export function readOpenFilesMax(path = "/proc/self/limits"): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync(path, "utf8")) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    // The file exists only on Linux; without it there is no known limit.
    return undefined;
  }
}
