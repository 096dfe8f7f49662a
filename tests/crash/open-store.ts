/** The files of a data directory without a server, opened as the server opens them. */
import assert from "node:assert/strict";
import { Engine, openFiles } from "@codeq/engine";
import { systemClock } from "../../packages/server/src/clock.ts";
import { deriveCounts } from "../../packages/server/src/store/counts.ts";
import { taskRows } from "../../packages/server/src/store/task-rows.ts";
import { readStore, type StoreContents } from "./check-store.ts";

export async function openStore(dataDir: string): Promise<Engine> {
  const files = await openFiles(dataDir, {
    durability: "fsync",
    monotonicMs: () => systemClock.monotonicMs(),
    newIdentity: () => assert.fail("a server has been there"),
    onRepair: assert.fail,
  });
  return Engine.open({
    ...files,
    rows: taskRows,
    derive: deriveCounts,
    clock: systemClock,
    observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
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
