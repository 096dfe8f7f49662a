/** The workers of the token's tenant, formatted for people. */
import type { ApiClient } from "../api/api-client.ts";
import { CliError } from "../cli-error.ts";
import { printable } from "../terminal/printable.ts";
import type { Style } from "../terminal/style.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { count, duration } from "../terminal/units.ts";

export interface WorkerLook {
  readonly workerId: string;
  readonly leases: number;
  readonly oldestLeaseAt?: string;
  readonly lastSeenAt?: string;
  readonly streams: number;
  readonly connectedAt?: string;
  readonly client?: string;
}

/** More than a screen has lines. */
const workersMax = 100;

/** Undefined when the server does not tell this caller. */
export async function lookAtWorkers(
  api: ApiClient,
  signal?: AbortSignal,
): Promise<readonly WorkerLook[] | undefined> {
  try {
    const { text } = await api.get(`/admin/workers?limit=${workersMax}`, { signal });
    return (JSON.parse(text) as { workers: readonly WorkerLook[] }).workers;
  } catch (error) {
    const isUntold = error instanceof CliError && ["denied", "notFound"].includes(error.exit);
    if (isUntold) return undefined;
    throw error;
  }
}

/** The busiest first. */
export function workerTable(
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
