/**
 * A connection is an open file to the system, and so is every file of the storage. When connections
 * may use up all that a process is allowed, storage that needs one more fails.
 */
import { readFileSync } from "node:fs";
import type { Config } from "./settings.ts";

/** For storage, log, webhooks and what Node needs. */
const filesForTheRest = 1000;

export function openFilesWarnings(config: Config, openFilesMax: number | undefined): string[] {
  const { connectionsMax, workerStreamAddr, producerStreamAddr } = config;
  const streams = [workerStreamAddr, producerStreamAddr].filter((address) => address !== "off");
  const listeners = 1 + streams.length;
  const needed = connectionsMax * listeners + filesForTheRest;
  if (openFilesMax === undefined || openFilesMax >= needed) return [];
  return [
    `connectionsMax: ${connectionsMax} connections on each of ${listeners} listener(s) need up to ` +
      `${needed} open files, and the system allows ${openFilesMax}; raise that limit (ulimit -n, ` +
      "LimitNOFILE) or lower connectionsMax",
  ];
}

/** Undefined where the system does not tell, or has no limit. */
export function readOpenFilesMax(path = "/proc/self/limits"): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync(path, "utf8")) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    // Not Linux: nothing is known, so nothing is said.
    return undefined;
  }
}
