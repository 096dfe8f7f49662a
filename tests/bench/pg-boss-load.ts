/** pg-boss with a real Postgres: full cycles of jobs that have groups, and of jobs that have none. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { fromNpm } from "../client/runtimes.ts";
import { SetupError } from "./programs.ts";

const version = "12.33.0";
/** Jobs in one statement: one by one, the round trips would be all that is measured. */
const batchSize = 64;
const loops = 4;

interface Job {
  readonly id: string;
}

interface PgBoss {
  on(event: "error", listener: (error: Error) => void): void;
  start(): Promise<unknown>;
  stop(options: { readonly graceful: boolean }): Promise<void>;
  createQueue(name: string): Promise<void>;
  insert(
    name: string,
    jobs: readonly { readonly data: object; readonly group?: { readonly id: string } }[],
  ): Promise<unknown>;
  fetch(
    name: string,
    options: { readonly batchSize: number; readonly groupConcurrency?: number },
  ): Promise<readonly Job[]>;
  complete(name: string, ids: readonly string[]): Promise<unknown>;
}

export async function openPgBoss(connectionString: string): Promise<PgBoss> {
  const got = fromNpm("pg-boss", version);
  if ("missing" in got) throw new SetupError(got.missing);
  const path = join(got.path, "pg-boss/dist/index.js");
  const { PgBoss } = await import(pathToFileURL(path).href);
  const boss: PgBoss = new PgBoss({ connectionString, supervise: false, schedule: false });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

/** Cycles that were done in so many milliseconds; with groups, so many of them, each with a limit that it never reaches. */
export async function pgBossCycles(
  boss: PgBoss,
  of: { readonly queue: string; readonly ms: number; readonly groups: number },
): Promise<number> {
  const endsAt = performance.now() + of.ms;
  const limit = of.groups === 0 ? {} : { groupConcurrency: loops * batchSize };
  let cycles = 0;
  let next = 0;
  const job = (): { readonly data: object; readonly group?: { readonly id: string } } => {
    next += 1;
    return of.groups === 0 ? { data: {} } : { data: {}, group: { id: `g-${next % of.groups}` } };
  };
  const loop = async (): Promise<void> => {
    while (performance.now() < endsAt) {
      await boss.insert(of.queue, Array.from({ length: batchSize }, job));
      const jobs = await boss.fetch(of.queue, { batchSize, ...limit });
      if (jobs.length === 0) continue;
      await boss.complete(
        of.queue,
        jobs.map(({ id }) => id),
      );
      cycles += jobs.length;
    }
  };
  await Promise.all(Array.from({ length: loops }, loop));
  return cycles;
}
