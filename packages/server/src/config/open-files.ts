/**
 * A connection is an open file for the system, and so is every file of the storage. Storage that cannot open
 * one more file fails permanently, so its share is reserved first, and connections get the rest.
 */
import { readFileSync } from "node:fs";
import { connectionSettings } from "./connection-settings.ts";
import type { Config } from "./settings.ts";

/** For storage, log, artifacts, callbacks and what Node needs: LevelDB alone may take a fifth. */
const restPercent = 55;
const restMax = 1000;
/** A shard has 16 before it holds a task: its log, its store, their locks and its thread. */
const filesOfShard = 24;
const fewConnections = 1000;
const defaultConnectionsMax = connectionSettings.connectionsMax.initial;

/** How many connections each listener may have: as many as configured, or as there are files for. */
export function connectionsThatFit(config: Config, openFilesMax: number | undefined): number {
  const { connectionsMax } = config;
  if (openFilesMax === undefined) return connectionsMax;
  const rest =
    Math.min(restMax, Math.ceil((openFilesMax * restPercent) / 100)) + filesOfShards(config);
  const fitting = Math.floor((openFilesMax - rest) / listenersOf(config));
  return Math.max(1, Math.min(connectionsMax, fitting));
}

/** What to do to get the connections that are configured; undefined when all of them fit. */
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

/** Beyond what one store needs. */
function filesOfShards({ shards }: Config): number {
  return shards === 1 ? 0 : shards * filesOfShard;
}

/**
 * Whether a start is to say so: nobody asked for the default, and thousands of connections are enough for
 * most. What was configured and does not fit is said, and so is a limit that leaves few connections.
 */
export function isLoweredNotably(config: Config, openFilesMax: number | undefined): boolean {
  const fitting = connectionsThatFit(config, openFilesMax);
  if (fitting === config.connectionsMax) return false;
  return config.connectionsMax !== defaultConnectionsMax || fitting < fewConnections;
}

function listenersOf({ workerStreamAddr, producerStreamAddr }: Config): number {
  return 1 + [workerStreamAddr, producerStreamAddr].filter((address) => address !== "off").length;
}

/** Undefined where the system does not tell, or has no limit. */
export function readOpenFilesMax(path = "/proc/self/limits"): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync(path, "utf8")) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    // Not Linux: nothing is known, so nothing is limited.
    return undefined;
  }
}
