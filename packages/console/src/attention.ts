/** What somebody should do something about, from what is known of queues, workers and the server. */

import { ago, bytes, duration, plural } from "./format.ts";
import type { QueueRow } from "./model/queues.ts";
import type { Disk, Health, Worker } from "./model/server.ts";
import type { IconName } from "./parts/icon.tsx";

export interface Attention {
  readonly level: "bad" | "warn";
  readonly icon: IconName;
  readonly title: string;
  readonly why: string;
  readonly page: "queue" | "dead" | "workers" | "health";
  /** Of the queue, where it is about one. */
  readonly queue?: string;
}

export interface Known {
  readonly queues: readonly QueueRow[];
  readonly workers: readonly Worker[];
  readonly health: Health | undefined;
  readonly disk?: Disk | undefined;
  readonly nowMs: number;
}

/** A worker that holds leases and was not heard of for so long may have died. */
const silentMs = 120_000;

export function isSilent({ leases, lastSeenAt }: Worker, nowMs: number): boolean {
  return leases > 0 && lastSeenAt !== undefined && nowMs - Date.parse(lastSeenAt) >= silentMs;
}

/** Little is left until the server refuses writes. */
export function isNearlyFull({ freeBytes, minFreeBytes }: Disk): boolean {
  return freeBytes < 3 * minFreeBytes;
}

/** Urgent ones first. */
export function attentionOf({ queues, workers, health, disk, nowMs }: Known): Attention[] {
  const found: Attention[] = [];
  if (health !== undefined && health.storage !== "open") {
    found.push({
      level: "bad",
      icon: "disk",
      title: `Storage is ${health.storage}`,
      why: "Writes are refused. Free disk space, or look at the log of the server.",
      page: "health",
    });
  } else if (disk !== undefined && isNearlyFull(disk)) {
    found.push({
      level: "warn",
      icon: "disk",
      title: `${bytes(disk.freeBytes)} of disk space left`,
      why: `The server refuses writes below ${bytes(disk.minFreeBytes)}. Free space, or use a larger disk.`,
      page: "health",
    });
  }
  for (const queue of queues) found.push(...ofQueue(queue, workers.length > 0, nowMs));
  for (const worker of workers) {
    const { workerId, leases, lastSeenAt } = worker;
    if (lastSeenAt === undefined || !isSilent(worker, nowMs)) continue;
    const silent = nowMs - Date.parse(lastSeenAt);
    found.push({
      level: "warn",
      icon: "deaf",
      title: `Worker ${workerId} is silent`,
      why: `It holds ${plural(leases, "lease")} and was last heard of ${duration(silent)} ago.`,
      page: "workers",
    });
  }
  return found.sort((one, other) => (one.level === other.level ? 0 : one.level === "bad" ? -1 : 1));
}

function ofQueue(queue: QueueRow, hasWorkers: boolean, nowMs: number): Attention[] {
  const { name, ready, dead, pause, waiting, leased } = queue;
  const found: Attention[] = [];
  if (dead > 0) {
    found.push({
      level: "bad",
      icon: "dead",
      title: `${name}: ${plural(dead, "dead letter")}`,
      why: "They used up their attempts and stay until somebody replays or deletes them.",
      page: "dead",
      queue: name,
    });
  }
  if (pause !== undefined) {
    const reason = pause.reason === undefined ? "" : `: “${pause.reason}”`;
    found.push({
      level: "warn",
      icon: "pause",
      title: `${name}: paused ${ago(Date.parse(pause.at), nowMs)}`,
      why: `By ${pause.by}${reason}. ${plural(waiting, "task is", "tasks are")} waiting.`,
      page: "queue",
      queue: name,
    });
  } else if (ready > 0 && leased === 0 && !hasWorkers) {
    found.push({
      level: "bad",
      icon: "nowork",
      title: `${name}: no worker`,
      why: `${plural(ready, "task is", "tasks are")} ready, and no worker is connected.`,
      page: "queue",
      queue: name,
    });
  }
  return found;
}
