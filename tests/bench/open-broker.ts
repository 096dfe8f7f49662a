/** A broker over the real log and the real kv in a directory, put together as the server does it. */
import { randomFillSync } from "node:crypto";
import { join } from "node:path";
import { LevelKv, LocalLog, NodeDisk } from "@codeq/engine";
import type { Change, NewTask, Submission, TaskId, TenantId, WorkerId } from "@codeq/queue";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { Enqueued, Submitted } from "../../packages/server/src/core/broker/verbs.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { Store } from "../../packages/server/src/core/store/store.ts";
import { TaskIds } from "../../packages/server/src/core/task-ids.ts";
import { ask, claim } from "../crash/ask-broker.ts";

export type Mode = "fsync" | "interval" | "os";

export interface Written {
  groups: number;
  batches: number;
  bytes: number;
  /** Keys that flushes wrote to the kv. */
  kvWrites: number;
}

export interface OpenBroker {
  readonly broker: ShardBroker;
  /** Everything below the broker. */
  readonly engine: Store;
  /** What went into the log since the start. */
  readonly written: Written;
}

const syncIntervalMs = 100;
const mebibyte = 1024 * 1024;
export const tenantId: TenantId = "bench" as TenantId;
const payload = JSON.stringify({ data: "x".repeat(80) });

export async function openBroker(
  directory: string,
  options: {
    readonly mode: Mode;
    readonly flushMiB: number;
    readonly observe?: (change: Change) => void;
  },
): Promise<OpenBroker> {
  const { mode } = options;
  const written: Written = { groups: 0, batches: 0, bytes: 0, kvWrites: 0 };
  const kv = await LevelKv.open(join(directory, "kv"));
  const disk = await NodeDisk.open(join(directory, "log"));
  const { monotonicMs } = systemClock;
  const log = await LocalLog.open(disk, {
    durability: mode,
    writer: 1,
    epoch: 1,
    shard: 0,
    monotonicMs,
    onAppend: (_seconds, bytes) => {
      written.bytes += bytes;
    },
  });
  const store = await Store.open({
    shards: 1,
    log,
    kv,
    clock: systemClock,
    observer: {
      grouped: (batches) => {
        written.groups += 1;
        written.batches += batches;
      },
      flushed: (_seconds, entries) => {
        written.kvWrites += entries;
      },
      stateChanged: (state, fault) => console.error(`engine is ${state}: ${fault?.message}`),
    },
    freeBytes: () => disk.freeBytes(),
    defer: (run) => setImmediate(run),
    minFreeBytes: 64 * mebibyte,
    flushBytes: options.flushMiB * mebibyte,
    syncIntervalMs: mode === "interval" ? syncIntervalMs : undefined,
  });
  const broker = await ShardBroker.open({
    store,
    clock: systemClock,
    draw: Math.random,
    ids: new TaskIds((bytes) => randomFillSync(bytes)),
    policy: { backoff: "exp_full_jitter", baseSeconds: 5, maxSeconds: 900 },
    retention: { doneMs: 24 * 60 * 60 * 1000, deadMs: 0 },
    delayedInMemoryMax: 100_000,
    quotas: noQuotas,
    disableEndpointAfterMs: 0,
    prepareRemoval: () => () => Promise.resolve(),
    observe: options.observe ?? (() => {}),
  });
  return { broker, engine: store, written };
}

/** The same for every call, so that the measured work is that of the server. */
const newTask: NewTask = {
  tenantId,
  command: "work",
  priority: 0,
  webhook: "",
  traceParent: "",
  traceState: "",
  idempotencyKey: "",
  maxAttempts: 5,
  visibleMs: undefined,
  extras: undefined,
  payload,
  payloadBytes: payload.length,
  payloadHash: "",
  keepsFirst: false,
};
const queues = ["work"];
const result = { json: '{"ok":true}', artifacts: [] };
export const success: Submission = {
  how: "completed",
  error: "",
  result,
  resultBytes: result.json.length,
};

type Placed = Partial<Pick<NewTask, "lane" | "batchId" | "command">>;

export async function enqueueOne(broker: ShardBroker, fields?: Placed): Promise<void> {
  const task = fields === undefined ? newTask : { ...newTask, ...fields };
  await ask<Enqueued>((waiter) => broker.enqueue(task, waiter));
}

export async function claimSome(
  broker: ShardBroker,
  workerId: WorkerId,
  count: number,
  isFromAny = false,
): Promise<TaskId[]> {
  const from = isFromAny ? undefined : queues;
  const request = { tenantId, workerId, queues: from, leaseMs: 60_000, count, waitMs: 1000 };
  const claimed = await claim(broker, request);
  if (claimed.length === 0) throw new Error("there was nothing to claim");
  return claimed.map(({ task }) => task.id);
}

export async function completeOne(
  broker: ShardBroker,
  workerId: WorkerId,
  id: TaskId,
): Promise<void> {
  const of = { tenantId, id, owner: { workerId } };
  await ask<Submitted>((waiter) => broker.submit(of, success, waiter));
}

/** One task in, the oldest one out, and its result, each waited for as a client would. */
export async function cycleOne(
  broker: ShardBroker,
  workerId: WorkerId,
  fields?: Placed,
): Promise<void> {
  await enqueueOne(broker, fields);
  // Tasks with commands of their own are in many queues, and are claimed from any of them.
  const [id] = await claimSome(broker, workerId, 1, fields?.command !== undefined);
  await completeOne(broker, workerId, id as TaskId);
}

export function readyCount(broker: ShardBroker): number {
  return broker.counts(tenantId, "work").ready.reduce((sum, count) => sum + count, 0);
}
