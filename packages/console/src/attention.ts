/** Problems of queues, workers and the server that an operator should act on. */

import { ago, bytes, count, duration, plural, workerName } from "./format.ts";
import type { FailureGroup } from "./model/failures.ts";
import { isUnserved, type QueueRow } from "./model/queues.ts";
import type { Disk, Health, Worker } from "./model/server.ts";
import type { IconName } from "./parts/icon.tsx";

export interface Attention {
  /** Stays the same while the problem lasts. */
  readonly id: string;
  readonly level: "bad" | "warn";
  readonly icon: IconName;
  readonly title: string;
  readonly why: string;
  readonly page: "queue" | "queues" | "failures" | "workers" | "health";
  /** The queues of the problem. */
  readonly queues: readonly string[];
  /** How many tasks the problem is about; larger ones come first. */
  readonly impact: number;
}

export interface Known {
  readonly queues: readonly QueueRow[];
  readonly workers: readonly Worker[];
  /** Undefined until they are known. */
  readonly failures?: readonly FailureGroup[] | undefined;
  readonly health: Health | undefined;
  readonly disk?: Disk | undefined;
  readonly nowMs: number;
}

/** A worker with leases that was silent for this long may have died. */
const silentMs = 120_000;

export function isSilent({ leases, lastSeenAt }: Worker, nowMs: number): boolean {
  return leases > 0 && lastSeenAt !== undefined && nowMs - Date.parse(lastSeenAt) >= silentMs;
}

export function isNearlyFull({ freeBytes, minFreeBytes }: Disk): boolean {
  return freeBytes < 3 * minFreeBytes;
}

/** A task that waits this long in a queue with workers is worth a look. */
const lateSeconds = 15 * 60;
const namesMax = 3;

/** One for each cause, not for each queue: urgent ones first, and of those the ones with most tasks. */
export function attentionOf(known: Known): Attention[] {
  const found = [
    ofStorage(known),
    ofFailures(known),
    ofUnserved(known),
    ofLate(known),
    ofPauses(known),
    ofSilence(known),
  ].filter((each) => each !== undefined);
  return found.sort((one, other) =>
    one.level === other.level ? other.impact - one.impact : one.level === "bad" ? -1 : 1,
  );
}

function ofStorage({ health, disk }: Known): Attention | undefined {
  const server = { icon: "disk", page: "health", queues: [], impact: Infinity } as const;
  if (health !== undefined && health.storage !== "open") {
    return {
      ...server,
      id: "storage",
      level: "bad",
      title: `Storage is ${health.storage}`,
      why: "Writes are refused. Free disk space, or look at the log of the server.",
    };
  }
  if (disk === undefined || !isNearlyFull(disk)) return undefined;
  return {
    ...server,
    id: "disk",
    level: "warn",
    title: `${bytes(disk.freeBytes)} of disk space left`,
    why: `The server refuses writes below ${bytes(disk.minFreeBytes)}. Free space, or use a larger disk.`,
  };
}

/**
 * Groups that someone has resolved, ignored or snoozed need no action. The rest is taken from the counts of the queues, because
 * a group names only its first queues.
 */
function ofFailures({ queues, failures }: Known): Attention | undefined {
  const isOpen = ({ state }: FailureGroup): boolean => state === "open" || state === "returned";
  const open = failures?.filter(isOpen);
  const settled = failures?.filter((group) => !isOpen(group)) ?? [];
  const settledIn = new Map<string, number>();
  for (const { command, count: many } of settled.flatMap(({ commands }) => commands)) {
    settledIn.set(command, (settledIn.get(command) ?? 0) + many);
  }
  const touched = queues
    .filter(({ name, dead, failed }) => dead + failed > (settledIn.get(name) ?? 0))
    .map(({ name }) => name);
  const left = (place: "dead" | "failed", of: "dlq" | "failed"): number =>
    queues.reduce((sum, each) => sum + each[place], 0) -
    settled.reduce((sum, each) => sum + each[of], 0);
  const failed = left("failed", "failed");
  const impact = left("dead", "dlq") + failed;
  if (impact <= 0 || touched.length === 0) return undefined;
  const causes = open === undefined ? "" : `, ${plural(open.length, "cause")}`;
  const many = plural(impact, failed === 0 ? "dead letter" : "failure");
  const [only] = touched.length === 1 ? touched : [];
  const largest = (open ?? [])
    .slice(0, namesMax)
    .map((each) => `${count(each.count)} × ${each.text}`);
  return {
    id: "failures",
    level: "bad",
    icon: "dead",
    title:
      only === undefined
        ? `${many}${causes}, ${plural(touched.length, "queue")}`
        : `${only}: ${many}${causes}`,
    why:
      largest.length === 0
        ? "They stay until someone replays or deletes them."
        : largest.join("; "),
    page: "failures",
    queues: touched,
    impact,
  };
}

function ofUnserved({ queues }: Known): Attention | undefined {
  const unserved = queues.filter(isUnserved);
  const [first] = unserved;
  if (first === undefined) return undefined;
  const which = unserved.length === 1 ? first.name : plural(unserved.length, "queue");
  return {
    ...oldestOf(unserved),
    id: "no worker",
    level: "bad",
    icon: "nowork",
    title: `No worker for ${which}, oldest ${duration(oldestMs(unserved))}`,
    why: `${namesOf(unserved)} No worker asks for them. Start one, or look at why it asks for other queues.`,
  };
}

/** Queues that have workers, but not enough of them. */
function ofLate({ queues }: Known): Attention | undefined {
  const late = queues.filter(
    (queue) =>
      queue.pause === undefined &&
      !isUnserved(queue) &&
      queue.ready > 0 &&
      (queue.oldestSeconds ?? 0) >= lateSeconds,
  );
  const [first] = late;
  if (first === undefined) return undefined;
  const which = late.length === 1 ? first.name : plural(late.length, "queue");
  return {
    ...oldestOf(late),
    id: "late",
    level: "warn",
    icon: "delayed",
    title: `Tasks of ${which} wait long, oldest ${duration(oldestMs(late))}`,
    why: `${namesOf(late)} Workers are there, but fewer tasks end than wait.`,
  };
}

function oldestMs(queues: readonly QueueRow[]): number {
  return Math.max(...queues.map(({ oldestSeconds = 0 }) => oldestSeconds)) * 1000;
}

function oldestOf(queues: readonly QueueRow[]): Pick<Attention, "page" | "queues" | "impact"> {
  return {
    page: queues.length === 1 ? "queue" : "queues",
    queues: queues.map(({ name }) => name),
    impact: queues.reduce((sum, { waiting }) => sum + waiting, 0),
  };
}

/** The queues with the most tasks, and how many others there are. */
function namesOf(queues: readonly QueueRow[]): string {
  const sorted = [...queues].sort((one, other) => other.waiting - one.waiting);
  const named = sorted.slice(0, namesMax).map(({ name, waiting }) => `${name} ${count(waiting)}`);
  const rest = sorted.length - named.length;
  const total = sorted.reduce((sum, { waiting }) => sum + waiting, 0);
  const tasks = plural(total, "task waits", "tasks wait");
  return `${tasks}: ${named.join(", ")}${rest === 0 ? "" : `, and ${plural(rest, "more queue")}`}.`;
}

function ofPauses({ queues, nowMs }: Known): Attention | undefined {
  const paused = queues.filter(({ pause }) => pause !== undefined);
  const [first] = paused;
  if (first?.pause === undefined) return undefined;
  const { by, at, reason } = first.pause;
  const because = reason === undefined ? "" : `: “${reason}”`;
  const isOne = paused.length === 1;
  return {
    ...oldestOf(paused),
    id: "paused",
    level: "warn",
    icon: "pause",
    title: isOne
      ? `${first.name}: paused ${ago(Date.parse(at), nowMs)}`
      : `${plural(paused.length, "queue is", "queues are")} paused`,
    why: isOne
      ? `By ${by}${because}. ${plural(first.waiting, "task is", "tasks are")} waiting.`
      : namesOf(paused),
  };
}

function ofSilence({ workers, nowMs }: Known): Attention | undefined {
  const silent = workers.filter((worker) => isSilent(worker, nowMs));
  const [first] = silent;
  if (first?.lastSeenAt === undefined) return undefined;
  const leases = silent.reduce((sum, each) => sum + each.leases, 0);
  const isOne = silent.length === 1;
  const longest = Math.max(...silent.map((each) => nowMs - Date.parse(each.lastSeenAt ?? "")));
  return {
    id: "silent",
    level: "warn",
    icon: "deaf",
    title: isOne
      ? `Worker ${workerName(first.workerId)} is silent`
      : `${count(silent.length)} workers are silent`,
    why: `${isOne ? "It holds" : "They hold"} ${plural(leases, "lease")} and ${isOne ? "was" : "were"} last heard of ${isOne ? "" : "up to "}${duration(longest)} ago.`,
    page: "workers",
    queues: [],
    impact: leases,
  };
}
