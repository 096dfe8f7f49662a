/** The files of a data directory without a server, opened as the server opens them. */
import { join } from "node:path";
import { Engine, LevelKv, LocalLog, NodeDisk } from "@codeq/engine";
import { systemClock } from "../../packages/server/src/clock.ts";
import { deriveCounts } from "../../packages/server/src/store/counts.ts";
import { taskRows } from "../../packages/server/src/store/task-rows.ts";
import { readStore, type StoreContents } from "./check-store.ts";

async function openStore(dataDir: string): Promise<Engine> {
  const kv = await LevelKv.open(join(dataDir, "kv"));
  const disk = await NodeDisk.open(join(dataDir, "log"));
  const log = await LocalLog.open(disk, {
    durability: "fsync",
    writer: 1,
    epoch: 1,
    shard: 0,
    monotonicMs: () => systemClock.monotonicMs(),
  });
  return Engine.open({
    kv,
    log,
    rows: taskRows,
    derive: deriveCounts,
    clock: systemClock,
    observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
    freeBytes: () => disk.freeBytes(),
    defer: (run) => void setImmediate(run),
    minFreeBytes: 0,
    flushBytes: 64 * 1024 * 1024,
    syncIntervalMs: undefined,
  });
}

/** Everything that is in a directory that nobody has open. */
export async function readDataDirectory(dataDir: string): Promise<StoreContents> {
  const engine = await openStore(dataDir);
  try {
    return await readStore(engine);
  } finally {
    await engine[Symbol.asyncDispose]();
  }
}
