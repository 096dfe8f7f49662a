/** A broker over the real log and the real kv in a directory, put together as the server does it. */
import { randomFillSync } from "node:crypto";
import { join } from "node:path";
import { Engine, LevelKv, LocalLog, NodeDisk } from "@codeq/engine";
import type { TenantId, WorkerId } from "@codeq/queue";
import { Broker } from "../../packages/server/src/broker/broker.ts";
import { systemClock } from "../../packages/server/src/clock.ts";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { deriveCounts } from "../../packages/server/src/store/counts.ts";
import { taskIndexing } from "../../packages/server/src/store/keys-of.ts";
import { TaskIds } from "../../packages/server/src/task-ids.ts";
import { Feed } from "../../packages/server/src/telemetry/feed.ts";

export type Mode = "fsync" | "interval" | "os";

export interface Written {
  groups: number;
  batches: number;
  bytes: number;
}

export interface OpenBroker {
  readonly broker: Broker;
  readonly engine: Engine;
  /** What went into the log since the start. */
  readonly written: Written;
}

export const syncIntervalMs = 100;
const mebibyte = 1024 * 1024;
const tenantId = "bench" as TenantId;
const payload = JSON.stringify({ data: "x".repeat(80) });

export async function openBroker(
  directory: string,
  options: { readonly mode: Mode; readonly flushMiB: number },
): Promise<OpenBroker> {
  const { mode } = options;
  const written: Written = { groups: 0, batches: 0, bytes: 0 };
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
  const engine = await Engine.open({
    log,
    kv,
    indexing: taskIndexing,
    derive: deriveCounts,
    clock: systemClock,
    observer: {
      grouped: (batches) => {
        written.groups += 1;
        written.batches += batches;
      },
      flushed: () => {},
      stateChanged: (state, fault) => console.error(`engine is ${state}: ${fault?.message}`),
    },
    freeBytes: () => disk.freeBytes(),
    defer: (run) => setImmediate(run),
    minFreeBytes: 64 * mebibyte,
    flushBytes: options.flushMiB * mebibyte,
    syncIntervalMs: mode === "interval" ? syncIntervalMs : undefined,
  });
  const broker = await Broker.open({
    engine,
    clock: systemClock,
    draw: Math.random,
    ids: new TaskIds((bytes) => randomFillSync(bytes)),
    policy: { backoff: "exp_full_jitter", baseSeconds: 5, maxSeconds: 900 },
    retention: { doneMs: 24 * 60 * 60 * 1000, deadMs: 0 },
    delayedInMemoryMax: 100_000,
    quotas: noQuotas,
    feed: new Feed(),
  });
  return { broker, engine, written };
}

/** The same for every call, so that the measured work is that of the server. */
const newTask = {
  tenantId,
  command: "work",
  priority: 0,
  webhook: "",
  traceParent: "",
  traceState: "",
  idempotencyKey: "",
  maxAttempts: 5,
  visibleMs: undefined,
  payload,
  payloadHash: "",
};
const commands = ["work"];
const success = { how: "completed", resultJson: '{"ok":true}', error: "", artifacts: [] } as const;

export function enqueueOne(broker: Broker): Promise<void> {
  const outcome = broker.enqueue(newTask);
  if (!outcome.ok) throw new Error(outcome.code);
  return outcome.value.done;
}

/** One task in, the oldest one out, and its result, each waited for as a client would. */
export async function cycleOne(broker: Broker, workerId: WorkerId): Promise<void> {
  await enqueueOne(broker);
  const claim = { tenantId, workerId, commands, leaseMs: 60_000, count: 1, waitMs: 1000 };
  const [claimed] = await broker.claim(claim);
  if (claimed === undefined) throw new Error("there was nothing to claim");
  const outcome = broker.submit({ tenantId, id: claimed.task.id, owner: { workerId } }, success);
  if (!outcome.ok) throw new Error(outcome.code);
  await outcome.value.done;
}

export function readyCount(broker: Broker): number {
  return broker.counts(tenantId, "work").ready.reduce((sum, count) => sum + count, 0);
}
