/** The lines of `top`, from two snapshots of the server. */

import type { ItemOf } from "@codeq/client/command-line";
import type { ApiClient } from "../api/api-client.ts";
import { CliError } from "../cli-error.ts";
import { printable, type Style } from "../terminal/style.ts";
import { type Column, columnsWithin, tableLines } from "../terminal/table.ts";
import { bytes, count, counted, duration, rate, timeOfDay } from "../terminal/units.ts";
import { type Bucket, between, type QueueSnapshot, quantile, type Snapshot } from "./metrics.ts";

export interface TopLook {
  readonly before: Snapshot;
  readonly after: Snapshot;
  /** Undefined when the token may not list workers. */
  readonly workers: readonly WorkerLook[] | undefined;
  /** Between the two. */
  readonly seconds: number;
  /** On the wall clock. */
  readonly nowMs: number;
}

/** Where the lines are shown. */
interface TopFrame {
  readonly baseUrl: string;
  readonly style: Style;
  readonly columns: number;
}

interface QueueRates {
  readonly queue: string;
  readonly now: QueueSnapshot;
  readonly oldestSeconds: number | null;
  readonly inPerSecond: number;
  readonly outPerSecond: number;
  readonly failedPerSecond: number;
  readonly latencyP50Ms: number | null;
  readonly latencyP99Ms: number | null;
}

interface TopFigures {
  readonly queues: readonly QueueRates[];
  readonly inPerSecond: number;
  readonly outPerSecond: number;
  readonly failedPerSecond: number;
  readonly expiredPerSecond: number;
  readonly syncP50Ms: number | null;
  readonly syncP99Ms: number | null;
  readonly cpuShare: number;
  readonly upMs: number;
}

export function topFigures({ before, after, seconds, nowMs }: TopLook): TopFigures {
  const isSame = before.startedSeconds === after.startedSeconds;
  const perSecond = (now: number, then: number): number =>
    seconds > 0 ? Math.max(0, now - (isSame ? then : 0)) / seconds : 0;
  const queues = [...after.queues].map(([queue, now]): QueueRates => {
    const then = before.queues.get(queue);
    const latency = recent(isSame ? (then?.latency ?? []) : [], now.latency);
    return {
      queue,
      now,
      oldestSeconds: now.oldestSeconds ?? null,
      inPerSecond: perSecond(now.created, then?.created ?? 0),
      outPerSecond: perSecond(now.completed, then?.completed ?? 0),
      failedPerSecond: perSecond(now.failed, then?.failed ?? 0),
      latencyP50Ms: milliseconds(quantile(latency, 0.5)),
      latencyP99Ms: milliseconds(quantile(latency, 0.99)),
    };
  });
  const syncs = recent(isSame ? before.syncs : [], after.syncs);
  const total = (pick: (rates: QueueRates) => number): number =>
    queues.reduce((sum, rates) => sum + pick(rates), 0);
  const expired = (snapshot: Snapshot): number =>
    [...snapshot.queues.values()].reduce((sum, queue) => sum + queue.expired, 0);
  return {
    queues: queues.sort(busiestFirst),
    inPerSecond: total((rates) => rates.inPerSecond),
    outPerSecond: total((rates) => rates.outPerSecond),
    failedPerSecond: total((rates) => rates.failedPerSecond),
    expiredPerSecond: perSecond(expired(after), expired(before)),
    syncP50Ms: milliseconds(quantile(syncs, 0.5)),
    syncP99Ms: milliseconds(quantile(syncs, 0.99)),
    cpuShare: perSecond(after.cpuSeconds, before.cpuSeconds),
    upMs: Math.max(0, nowMs - after.startedSeconds * 1000),
  };
}

/** What happened between the two looks; all there ever was when nothing did. */
function recent(before: readonly Bucket[], after: readonly Bucket[]): readonly Bucket[] {
  const since = between(before, after);
  return (since.at(-1)?.count ?? 0) > 0 ? since : after;
}

function milliseconds(seconds: number | undefined): number | null {
  return seconds === undefined ? null : seconds * 1000;
}

function busiestFirst(a: QueueRates, b: QueueRates): number {
  const weight = ({ now, inPerSecond, outPerSecond }: QueueRates): number =>
    now.ready + now.inProgress + inPerSecond + outPerSecond;
  return weight(b) - weight(a) || (a.queue < b.queue ? -1 : 1);
}

export function topLines(look: TopLook, { baseUrl, style, columns }: TopFrame): string[] {
  const { after, nowMs, workers = [] } = look;
  const figures = topFigures(look);
  const storage = after.storage === "ok" ? style.green("ok") : style.red(after.storage);
  const failed = rate(figures.failedPerSecond);
  const running = [...after.queues.values()].reduce((sum, queue) => sum + queue.inProgress, 0);
  // A Ready that is held waits like a claim does, and is counted among them.
  const overHttp = Math.max(0, after.claimWaiters - after.heldReadys);
  const label = (text: string): string => style.dim(text.padEnd(9));
  return [
    `${style.bold("codeQ")}  ${baseUrl}  up ${duration(figures.upMs)}  storage ${storage}  ${style.dim(timeOfDay(nowMs))}`,
    "",
    `${label("tasks")}in ${rate(figures.inPerSecond)}/s  out ${rate(figures.outPerSecond)}/s  ` +
      `failed ${figures.failedPerSecond > 0 ? style.red(failed) : failed}/s  ` +
      `leases expired ${rate(figures.expiredPerSecond)}/s`,
    `${label("workers")}${count(overHttp)} waiting over HTTP  ` +
      `${counted(after.workerStreams, "stream")} (${counted(after.heldReadys, "ready")} held)  ` +
      `${counted(running, "task")} running`,
    `${label("clients")}${counted(after.producerStreams, "producer stream")}  ` +
      `${count(after.resultWaiters)} waiting for results`,
    `${label("disk")}sync p50 ${msText(figures.syncP50Ms)}  p99 ${msText(figures.syncP99Ms)}  ` +
      `log ${bytes(after.logBytes)}`,
    `${label("process")}memory ${bytes(after.memoryBytes)}  ` +
      `CPU ${Math.round(figures.cpuShare * 100)}%  ` +
      `event loop p99 ${duration(after.lagSeconds * 1000)} late`,
    "",
    ...queueTable(figures.queues, style, columns),
    "",
    ...(workers.length === 0 ? [] : [...workerTable(workers, nowMs, style), ""]),
    style.dim("Press q to quit. Counts cover all tenants; workers, the tenant of the token."),
  ];
}

function queueTable(queues: readonly QueueRates[], style: Style, width: number): string[] {
  if (queues.length === 0)
    return [style.dim("there are no tasks yet; create one with codeq enqueue hello")];
  const columns: Column<QueueRates>[] = [
    { title: "QUEUE", show: ({ queue }) => queue },
    right("READY", ({ now }) => count(now.ready)),
    right("DELAYED", ({ now }) => count(now.delayed)),
    right("RUNNING", ({ now }) => count(now.inProgress)),
    ...(queues.some(({ now }) => now.lanes > 0)
      ? [right("LANES", ({ now }) => (now.lanes === 0 ? "-" : count(now.lanes)))]
      : []),
    right("DEAD", ({ now }) => (now.dlq > 0 ? style.red(count(now.dlq)) : "0")),
    right("OLDEST", ({ oldestSeconds }) => msText(milliseconds(oldestSeconds ?? undefined))),
    right("IN/s", ({ inPerSecond }) => rate(inPerSecond)),
    right("OUT/s", ({ outPerSecond }) => rate(outPerSecond)),
    right("FAIL/s", ({ failedPerSecond }) => rate(failedPerSecond)),
    right("P50", ({ latencyP50Ms }) => msText(latencyP50Ms)),
    right("P99", ({ latencyP99Ms }) => msText(latencyP99Ms)),
  ];
  return tableLines(columnsWithin(width, columns, queues), queues, style);
}

function right(title: string, show: (rates: QueueRates) => string): Column<QueueRates> {
  return { title, align: "right", show };
}

function msText(ms: number | null): string {
  return ms === null ? "-" : duration(ms);
}

type WorkerLook = ItemOf<"GET /admin/workers">;

/** More than a screen has lines. */
const workersMax = 100;

/** Undefined when the token may not list workers. */
export async function lookAtWorkers(
  api: ApiClient,
  signal?: AbortSignal,
): Promise<readonly WorkerLook[] | undefined> {
  try {
    const given = { query: { limit: workersMax } };
    const { value } = await api.call("GET /admin/workers", given, { signal });
    return value.workers;
  } catch (error) {
    const isRefused = error instanceof CliError && ["denied", "notFound"].includes(error.exit);
    if (isRefused) return undefined;
    throw error;
  }
}

/** The busiest first. */
function workerTable(
  workers: readonly WorkerLook[],
  nowMs: number,
  style: Style,
): readonly string[] {
  const since = (time: string | undefined): string =>
    time === undefined ? "-" : duration(Math.max(0, nowMs - Date.parse(time)));
  const columns: Column<WorkerLook>[] = [
    { title: "WORKER", show: ({ workerId }) => printable(workerId) },
    { title: "RUNNING", align: "right", show: ({ leases }) => count(leases) },
    { title: "OLDEST", align: "right", show: ({ oldestLeaseAt }) => since(oldestLeaseAt) },
    { title: "SEEN", align: "right", show: ({ lastSeenAt }) => since(lastSeenAt) },
    { title: "STREAMS", align: "right", show: ({ streams }) => count(streams) },
    { title: "CONNECTED", align: "right", show: ({ connectedAt }) => since(connectedAt) },
    { title: "CLIENT", show: ({ client = "-" }) => printable(client) },
  ];
  return tableLines(
    columns,
    [...workers].sort((a, b) => b.leases - a.leases),
    style,
  );
}
