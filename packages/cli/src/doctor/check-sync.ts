/** Measures how fast the disk syncs a write, and whether the durability mode uses syncs. */
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { dataDirectoryOf } from "../local/data-directory.ts";
import { duration } from "../terminal/units.ts";
import { existingDirectory } from "./check-data-directory.ts";
import { type Finding, fail, ok, type Patient, warn } from "./finding.ts";

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

export interface SyncTimes {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly writes: number;
}

export function checkSync(patient: Patient): Finding {
  if (patient.config.persistenceProvider === "memory") return ok("sync speed", "not needed");
  const directory = existingDirectory(dataDirectoryOf(patient.call, patient.config));
  try {
    return judgeSync(measureSync(directory, () => patient.call.host.clock.monotonicMs()));
  } catch (error) {
    const advice = "check that the disk is healthy and that this user has write access";
    return fail("sync speed", `cannot be measured: ${(error as Error).message}`, advice);
  }
}

/** Writes blocks to a file of its own and waits for each to be durable, as the log does. */
export function measureSync(directory: string, monotonicMs: () => number): SyncTimes {
  const path = join(directory, `.codeq-doctor-${process.pid}`);
  const file = openSync(path, "wx");
  const times: number[] = [];
  try {
    const block = Buffer.alloc(blockBytes, "codeq");
    const endsMs = monotonicMs() + measureMsMax;
    // The first sync also makes the file itself durable.
    writeSync(file, block, 0, blockBytes, 0);
    fdatasyncSync(file);
    while (times.length < writesMax && monotonicMs() < endsMs) {
      const startedMs = monotonicMs();
      writeSync(file, block, 0, blockBytes, times.length * blockBytes);
      fdatasyncSync(file);
      times.push(monotonicMs() - startedMs);
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
