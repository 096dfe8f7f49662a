/** The settings of the memory of the storage, and of its sweeps. */
import { text } from "./parsers.ts";
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
      "Block cache of the store of each shard; a larger cache helps when many old tasks and results are read.",
  },
  lsmWriteBufferBytes: {
    ...bytes(mebibyte, gibibyte, 32 * mebibyte),
    about:
      "Write buffer of the store of each shard, held up to twice; a smaller buffer means more compactions.",
  },
  flushBytes: {
    ...bytes(64 * 1024, gibibyte, 6 * mebibyte),
    about:
      "Changes that each shard collects in memory before it flushes them to the store; at four times this size, commits wait for the flush.",
  },
  backupDir: {
    parser: text({ accepts: "a directory", example: "./backups" }),
    initial: "",
    initialInWords: "`backups` under dataDir",
    about: "Directory that backups are written to; choose one on another disk.",
  },
  sweepBatchMax: {
    ...count(1, 100_000, 256),
    about:
      "Maximum number of tasks per step of a sweep: expired leases, delayed tasks that became due, tasks whose retention ended.",
  },
  retentionSweepSeconds: {
    ...seconds(1, 86_400, 1),
    about:
      "Interval of the retention sweep; each sweep deletes the tasks whose retention has ended.",
  },
  scrubIntervalSeconds: {
    ...seconds(0, yearSeconds, 86_400),
    about: "How often the server verifies all files of the store; 0 verifies them only at start.",
  },
};
