/** Checks the machine of the server: Node, limits, memory, clock, and how fast its disk syncs a write. */

import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import { freemem } from "node:os";
import { join } from "node:path";
import { dataDirectoryOf } from "../local/data-directory.ts";
import { bytes, duration } from "../terminal/units.ts";
import { cliVersion } from "../version.ts";
import { existingDirectory } from "./check-data-directory.ts";
import { type Finding, fail, ok, type Patient, warn } from "./finding.ts";

const memoryMin = 512 * 1024 ** 2;
/** A time before the first commit of this project: a clock that shows it has been reset. */
const plausibleMs = Date.UTC(2025, 0, 1);

export function checkVersions(): Finding {
  const { versions, platform, arch } = process;
  const found = `codeq ${cliVersion}, Node ${versions.node}, ${platform} ${arch}`;
  const major = Number(versions.node.split(".")[0]);
  if (major >= 24) return ok("versions", found);
  return warn(
    "versions",
    found,
    "codeQ is tested with Node 24; install it for the best performance",
  );
}

/** What the server itself says about it when it starts. */
export async function checkOpenFiles({ config }: Patient): Promise<Finding> {
  const { openFilesAdvice, readOpenFilesMax } = await import("@codeq/server/config");
  const limit = readOpenFilesMax();
  if (limit === undefined) return ok("open files", "no limit, or the limit is unknown");
  const found = `at most ${limit}`;
  const advice = openFilesAdvice(config, limit);
  return advice === undefined ? ok("open files", found) : warn("open files", found, advice);
}

export function checkMemory(): Finding {
  const free = freemem();
  const found = `${bytes(free)} free`;
  if (free >= memoryMin) return ok("memory", found);
  return warn("memory", found, `a busy server needs ${bytes(memoryMin)}; add memory`);
}

/** How much of the memory callers can make the server hold. */
export async function checkBudget({ config }: Patient): Promise<Finding> {
  const { inFlightOf, memoryOf } = await import("@codeq/server/config");
  const memory = memoryOf(config);
  const { bytesMax, tenantBytesMax } = inFlightOf(config);
  const found =
    `${bytes(memory)} for the server; request bodies and stream messages in flight may take ${bytes(bytesMax)}, ` +
    `those of one tenant ${bytes(tenantBytesMax)}`;
  if (memory >= memoryMin) return ok("memory budget", found);
  const advice = `set memoryBytes, or the limit of the container, to ${bytes(memoryMin)} or more`;
  return warn("memory budget", found, advice);
}

export function checkClock({ call, config }: Patient): Finding {
  const nowMs = call.host.clock.nowMs();
  const found = `${new Date(nowMs).toISOString()}, shown to callers in ${config.timezone}`;
  if (nowMs >= plausibleMs) return ok("clock", found);
  return warn("clock", found, "set the clock of this machine, or turn on time synchronization");
}

const writesMax = 64;
const measureMsMax = 2000;
const blockBytes = 4096;
const slowMs = 20;
/** No disk that keeps its promise is this fast. */
const incredibleMs = 0.02;

export function checkDurability({ config }: Patient): Finding {
  const { durability, env, syncIntervalMs } = config;
  if (durability === "fsync") return ok("durability", "fsync: acknowledged changes are on disk");
  const found =
    durability === "interval"
      ? `interval: a power failure can lose the last ${syncIntervalMs} ms`
      : "os: a power failure loses what the operating system has not synced yet";
  if (env === "dev") return ok("durability", found);
  return warn("durability", found, "set durability to fsync unless you can lose these changes");
}

interface SyncTimes {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly writes: number;
}

export function checkSync(patient: Patient): Finding {
  if (patient.config.persistenceProvider === "memory") return ok("sync speed", "not needed");
  const directory = existingDirectory(dataDirectoryOf(patient.call, patient.config));
  try {
    return judgeSync(measureSync(directory));
  } catch (error) {
    const advice = "check that the disk is healthy and that this user has write access";
    return fail("sync speed", `cannot be measured: ${(error as Error).message}`, advice);
  }
}

/**
 * Writes blocks to a file of its own and waits for each to be durable, as the log does. Reads the clock of the system:
 * the clock of the host stands still during a callback.
 */
export function measureSync(
  directory: string,
  sync: (file: number) => void = fdatasyncSync,
): SyncTimes {
  const path = join(directory, `.codeq-doctor-${process.pid}`);
  const file = openSync(path, "wx");
  const times: number[] = [];
  try {
    const block = Buffer.alloc(blockBytes, "codeq");
    const endsMs = performance.now() + measureMsMax;
    // The first sync also makes the file itself durable.
    writeSync(file, block, 0, blockBytes, 0);
    sync(file);
    while (times.length < writesMax && performance.now() < endsMs) {
      const startedMs = performance.now();
      writeSync(file, block, 0, blockBytes, times.length * blockBytes);
      sync(file);
      times.push(performance.now() - startedMs);
    }
  } finally {
    closeSync(file);
    rmSync(path);
  }
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.floor(share * (times.length - 1))] ?? 0;
  return { p50Ms: at(0.5), p99Ms: at(0.99), writes: times.length };
}

export function judgeSync({ p50Ms, p99Ms, writes }: SyncTimes): Finding {
  const found = `p50 ${duration(p50Ms)}, p99 ${duration(p99Ms)} (${writes} writes)`;
  if (p50Ms < incredibleMs) {
    const advice =
      "this is suspiciously fast: the disk or the virtual machine may not really sync; do not rely on it";
    return warn("sync speed", found, advice);
  }
  if (p50Ms > slowMs) {
    const advice = "every acknowledgement waits for this; use a faster disk, or send batches";
    return warn("sync speed", found, advice);
  }
  return ok("sync speed", found);
}
