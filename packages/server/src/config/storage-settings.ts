/** The rows of the table of settings that are about memory of the storage and about its sweeps. */
import { bytes, count, type SettingRow, seconds } from "./setting-row.ts";
import type { StorageSettings } from "./settings.ts";

const mebibyte = 1024 * 1024;
const gibibyte = 1024 * mebibyte;
const yearSeconds = 366 * 24 * 60 * 60;

export const storageSettings: {
  readonly [K in keyof StorageSettings]: SettingRow<StorageSettings[K]>;
} = {
  lsmCacheBytes: {
    ...bytes(mebibyte, 64 * gibibyte, 32 * mebibyte),
    about:
      "Memory for blocks of the store that were read, in each shard; more helps where many old tasks and results are read.",
  },
  lsmWriteBufferBytes: {
    ...bytes(mebibyte, gibibyte, 32 * mebibyte),
    about:
      "What the store of each shard collects in memory before it writes a file, held up to twice; less means more work for compactions.",
  },
  flushBytes: {
    ...bytes(64 * 1024, gibibyte, 6 * mebibyte),
    about:
      "Changes that each shard collects in memory before it writes their sum to the store; at four times as much commits wait.",
  },
  sweepBatchMax: {
    ...count(1, 100_000, 256),
    about:
      "Most tasks that one step of a sweep takes: leases that ended, delayed tasks that became due, tasks whose retention ended.",
  },
  retentionSweepSeconds: {
    ...seconds(1, 86_400, 1),
    about:
      "Tasks whose retention ends within the same span of this length are deleted together, at its end.",
  },
  scrubIntervalSeconds: {
    ...seconds(0, yearSeconds, 86_400),
    about:
      "How often all files of the store are read and checked; 0 checks them at the start only.",
  },
};
