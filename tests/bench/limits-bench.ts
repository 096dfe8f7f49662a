/**
 * What a limit costs that never holds a task back: full cycles of our broker on queues with limits and without, and the
 * same with BullMQ's limiter and with the groups of pg-boss. They are measured by turns; the ratio to the queue without limits
 * is what to compare, because ours runs in process, BullMQ has a Redis beside it, and pg-boss a Postgres.
 */
import type { TenantId, WorkerId } from "@codeq/queue";
import { Queue, Worker } from "bullmq";
import type { TopicPolicy } from "../../packages/server/src/core/records/topic-record.ts";
import { noPostgres, type PostgresDatabase, PostgresServer } from "../outbox/postgres-server.ts";
import { cycleOne, openBroker } from "./open-broker.ts";
import { readOptions, wholeNumber } from "./options.ts";
import { ensurePeers, startRedis } from "./peer-servers.ts";
import { openPgBoss, pgBossCycles } from "./pg-boss-load.ts";
import { SetupError } from "./programs.ts";
import { Workspace } from "./workspace.ts";

export const limitsHelp = `what a limit costs that never holds a task back: ours, BullMQ's limiter, and pg-boss' groups
    --in-flight 256            cycles at the same time
    --seconds 2                per turn
    --turns 5
    --groups 100               lanes of ours, and groups of pg-boss
  Needs redis-server, as peers does, and gets Postgres and pg-boss from npm. Ours are cycles in process; compare the column
  "of first" of each system.`;

const columnWidth = 18;
const workerId = "bench" as WorkerId;
const queue = { tenantId: "bench" as TenantId, name: "work" };
const plenty = 1_000_000_000;
const rate = { units: plenty, per: "1s", burst: plenty };
const base: TopicPolicy = {
  priorityTiers: [0],
  maxAttempts: 5,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers: 0,
  placement: "spread",
};
interface Limit {
  readonly name: string;
  readonly policy: Partial<TopicPolicy>;
  /** The tasks have lanes. */
  readonly hasLanes?: boolean;
}
const ours: readonly Limit[] = [
  { name: "no limit", policy: {} },
  { name: "maxConsumers", policy: { maxConsumers: 10_000 } },
  { name: "rate", policy: { rate } },
  { name: "lane limit", policy: { lanes: { concurrency: 10_000 } }, hasLanes: true },
  { name: "lane rate", policy: { lanes: { concurrency: 0, rate } }, hasLanes: true },
];
const limiter = { max: plenty, duration: 1000 };

interface Case {
  readonly system: string;
  readonly name: string;
  /** Cycles that were done in so many milliseconds. */
  run(ms: number): Promise<number>;
  close(): Promise<void>;
}

export async function limitsBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    "in-flight": wholeNumber("256"),
    seconds: wholeNumber("2"),
    turns: wholeNumber("5"),
    groups: wholeNumber("100"),
  });
  ensurePeers(["redis-server"]);
  await using workspace = new Workspace();
  const inFlight = values["in-flight"];
  const cases: Case[] = [];
  for (const { name, policy, hasLanes = false } of ours) {
    const lanes = hasLanes ? values.groups : 0;
    cases.push(await ourCase(workspace, { name, policy: { ...base, ...policy }, inFlight, lanes }));
  }
  const redis = await startRedis(workspace);
  for (const isLimited of [false, true]) {
    cases.push(await bullMqCase({ port: redis.port, isLimited, inFlight }));
  }
  if (noPostgres !== false) throw new SetupError(noPostgres);
  const postgres = await PostgresServer.open();
  for (const groups of [0, values.groups]) {
    cases.push(await pgBossCase(await postgres.newDatabase(), groups));
  }
  const rates = new Map<Case, number[]>(cases.map((each) => [each, []]));
  for (let turn = 0; turn < values.turns; turn++) {
    for (const each of cases) {
      const startedAt = performance.now();
      const cycles = await each.run(values.seconds * 1000);
      rates.get(each)?.push((cycles * 1000) / (performance.now() - startedAt));
    }
  }
  printRow(["system", "limit", "cycles/s", "of first"]);
  for (const each of cases) {
    const first = cases.find(({ system }) => system === each.system) as Case;
    const [own, without] = [each, first].map((of) => median(rates.get(of) ?? []));
    const figures = [(own ?? 0).toFixed(0), ((own ?? 0) / (without ?? 1)).toFixed(2)];
    printRow([each.system, each.name, ...figures]);
    await each.close();
  }
  await postgres.dispose();
}

interface Wanted {
  readonly lanes: number;
  readonly name: string;
  readonly policy: TopicPolicy;
  readonly inFlight: number;
}

async function ourCase(
  workspace: Workspace,
  { name, policy, inFlight, lanes }: Wanted,
): Promise<Case> {
  const directory = workspace.newDirectory();
  const { broker, engine } = await openBroker(directory, { mode: "os", flushMiB: 6 });
  await broker.putTopic(queue, policy);
  let task = 0;
  const cycle = (): Promise<void> => {
    task += 1;
    return cycleOne(broker, workerId, lanes === 0 ? {} : { lane: `lane-${task % lanes}` });
  };
  return {
    system: "codeQ",
    name,
    run: async (ms) => {
      const endsAt = performance.now() + ms;
      let cycles = 0;
      const work = async (): Promise<void> => {
        while (performance.now() < endsAt) {
          await cycle();
          cycles += 1;
        }
      };
      await Promise.all(Array.from({ length: inFlight }, work));
      return cycles;
    },
    close: () => engine[Symbol.asyncDispose](),
  };
}

/** Each completed job adds the next one, so that as many are under way all the time. */
async function bullMqCase(of: {
  readonly port: number;
  readonly isLimited: boolean;
  readonly inFlight: number;
}): Promise<Case> {
  const name = of.isLimited ? "limiter" : "no limit";
  const connection = { host: "127.0.0.1", port: of.port, maxRetriesPerRequest: null };
  const jobs = new Queue(name, { connection });
  const options = { connection, concurrency: of.inFlight, removeOnComplete: { count: 1000 } };
  const worker = new Worker(name, () => Promise.resolve(true), {
    ...options,
    ...(of.isLimited ? { limiter } : {}),
  });
  await Promise.all([jobs.waitUntilReady(), worker.waitUntilReady()]);
  return {
    system: "BullMQ",
    name,
    run: async (ms) => {
      const endsAt = performance.now() + ms;
      let cycles = 0;
      let open = of.inFlight;
      const ended = Promise.withResolvers<void>();
      const next = (): void => {
        cycles += 1;
        if (performance.now() < endsAt) jobs.add("work", {}).catch(ended.reject);
        else if (--open === 0) ended.resolve();
      };
      worker.on("completed", next);
      for (let n = 0; n < of.inFlight; n++) await jobs.add("work", {});
      await ended.promise;
      worker.off("completed", next);
      return cycles;
    },
    close: async () => {
      await worker.close();
      await jobs.close();
    },
  };
}

async function pgBossCase({ url }: PostgresDatabase, groups: number): Promise<Case> {
  const boss = await openPgBoss(url);
  const queue = "work";
  await boss.createQueue(queue);
  return {
    system: "pg-boss",
    name: groups === 0 ? "no limit" : "groups",
    run: (ms) => pgBossCycles(boss, { queue, ms, groups }),
    close: () => boss.stop({ graceful: false }),
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >>> 1] ?? 0;
}

function printRow(cells: readonly string[]): void {
  console.log(cells.map((cell) => cell.padStart(columnWidth)).join(""));
}
