/** The files of a data directory without a server, opened as the server opens them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { Engine, openFiles } from "@codeq/engine";
import type { Task } from "@codeq/queue";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { deriveCounts } from "../../packages/server/src/core/records/counts.ts";
import { shardOf } from "../../packages/server/src/core/shards/shard-of.ts";
import { taskRows } from "../../packages/server/src/core/store/task-rows.ts";
import { readStore, type StoreContents } from "./check-store.ts";

export async function openStore(dataDir: string): Promise<Engine> {
  const files = await openFiles(dataDir, {
    durability: "fsync",
    monotonicMs: () => systemClock.monotonicMs(),
    newStoreId: () => assert.fail("a server has been there"),
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

/** The same of the store of what is no task and of all shards, put together. */
export async function readShards(dataDir: string, shards: number): Promise<StoreContents> {
  const all = [await readDataDirectory(dataDir)];
  for (let shard = 0; shard < shards; shard += 1) {
    const contents = await readDataDirectory(join(dataDir, `shard-${shard}`));
    const strays = [...contents.tasks.keys()].filter((id) => shardOf(id, shards) !== shard);
    const problems = strays.map((id) => `${id} is in shard ${shard} and belongs elsewhere`);
    all.push({ ...contents, problems: [...contents.problems, ...problems] });
  }
  const keys = all.flatMap(({ tasks }) =>
    [...tasks.values()].map(keyOf).filter((key) => key !== ""),
  );
  const twice = keys.filter((key, at) => keys.indexOf(key) !== at);
  return {
    tasks: new Map(all.flatMap(({ tasks }) => [...tasks])),
    payloads: new Map(all.flatMap(({ payloads }) => [...payloads])),
    results: new Map(all.flatMap(({ results }) => [...results])),
    problems: [
      ...all.flatMap(({ problems }) => problems),
      ...twice.map((key) => `${key} stands for tasks of two shards`),
    ],
  };
}

function keyOf({ tenantId, idempotencyKey }: Task): string {
  return idempotencyKey === "" ? "" : `${tenantId}/${idempotencyKey}`;
}
