/**
 * Lanes in process. First full cycles (enqueue, claim, submit) on a queue without lanes and on queues with lanes; all of
 * them are open at the same time and measured by turns, so that other load on the machine meets all of them. Then how long
 * tasks of quiet lanes wait beside a lane that floods the queue.
 */
import type { TenantId, WorkerId } from "@codeq/queue";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import { noLaneLimits } from "../../packages/server/src/core/records/lane-policy.ts";
import type { TopicPolicy } from "../../packages/server/src/core/records/topic-record.ts";
import { ask, claim } from "../crash/ask-broker.ts";
import { heldBytes } from "./held-bytes.ts";
import { Histogram } from "./histogram.ts";
import { cycleOne, enqueueOne, type Mode, openBroker, success } from "./open-broker.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { Workspace } from "./workspace.ts";

export const lanesHelp = `full cycles in process with 0 (no lanes), 1, 100 and 10,000 lanes, by turns; then pickup beside a flood
    --mode os                  durability mode
    --lanes 0,1,100,10000      how many lanes the tasks have; 0 for none
    --blocked 1000000          one more case: so many lanes whose task waits for the rate, and --runnable others; 0 for none
    --runnable 1000
    --in-flight 256            cycles at the same time
    --seconds 2                per turn
    --turns 5
    --slots 32                 of workers that take 5 ms for a task; half of them may have tasks of the flood; 0 leaves that out`;

const columnWidth = 12;
const workerId = "bench" as WorkerId;
const queue = { tenantId: "bench" as TenantId, name: "work" };
/** One task a lane, and then none for the time of a run. */
const oneTask = { units: 1, per: "1d", burst: 1 };
const anyNumber = { units: 1_000_000_000, per: "1s", burst: 1_000_000_000 };
const policy: TopicPolicy = {
  priorityTiers: [0],
  maxAttempts: 5,
  deadLetterTopicRef: "",
  retentionSeconds: 0,
  maxConsumers: 0,
  placement: "spread",
};
const workMs = 5;
/** A quiet lane gets a task this often. */
const quietMs = 5;
const quietLanes = 99;

export async function lanesBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "interval", "os"], "os"),
    lanes: wholeNumbers("0,1,100,10000", 0),
    blocked: wholeNumber("1000000", 0),
    runnable: wholeNumber("1000"),
    "in-flight": wholeNumber("256"),
    seconds: wholeNumber("2"),
    turns: wholeNumber("5"),
    slots: wholeNumber("32", 0),
  });
  const { blocked, runnable, slots } = values;
  await using workspace = new Workspace();
  for (const mode of values.mode) {
    const cases: Case[] = [];
    for (const lanes of values.lanes) cases.push(await openCase(workspace, { mode, lanes }));
    if (blocked > 0) cases.push(await openCase(workspace, { mode, lanes: runnable, blocked }));
    for (let turn = 0; turn < values.turns; turn++) {
      for (const each of cases) await each.run(values["in-flight"], values.seconds * 1000);
    }
    const base = median(cases[0]?.rates ?? []);
    printRow(["mode", "lanes", "blocked", "B/blocked", "cycles/s", "of first", "cpu us"]);
    for (const { lanes, rates, blocked, bytes, cpuUs } of cases) {
      const rate = median(rates);
      const figures = [bytes.toFixed(0), rate.toFixed(0), (rate / base).toFixed(2)];
      printRow([mode, `${lanes}`, `${blocked}`, ...figures, median(cpuUs).toFixed(1)]);
    }
    for (const each of cases) await each.close();
    if (slots === 0) continue;
    console.log("");
    printRow(["mode", "flood", "p50 ms", "p99 ms"]);
    for (const isFlooded of [false, true]) {
      const pickup = await measurePickup(workspace, { ...values, mode, isFlooded });
      const [p50, p99] = [0.5, 0.99].map((share) => (pickup.quantile(share) ?? 0).toFixed(2));
      printRow([mode, isFlooded ? "yes" : "no", p50 ?? "", p99 ?? ""]);
    }
  }
}

interface Case {
  readonly lanes: number;
  readonly blocked: number;
  /** Of memory for each blocked lane. */
  readonly bytes: number;
  /** Cycles per second of each turn. */
  readonly rates: readonly number[];
  /** CPU time of a cycle in each turn; says more than the rate on a busy machine. */
  readonly cpuUs: readonly number[];
  run(inFlight: number, ms: number): Promise<void>;
  close(): Promise<void>;
}

async function openCase(
  workspace: Workspace,
  of: { readonly mode: Mode; readonly lanes: number; readonly blocked?: number },
): Promise<Case> {
  const { mode, lanes, blocked = 0 } = of;
  const { broker, engine } = await openBroker(workspace.newDirectory(), { mode, flushMiB: 6 });
  const bytes = blocked === 0 ? 0 : await block(broker, { lanes, blocked });
  const rates: number[] = [];
  const cpuUs: number[] = [];
  let task = 0;
  const cycle = (): Promise<void> => {
    task += 1;
    return cycleOne(broker, workerId, lanes === 0 ? {} : { lane: `lane-${task % lanes}` });
  };
  return {
    lanes,
    blocked,
    bytes,
    rates,
    cpuUs,
    run: async (inFlight, ms) => {
      const startedAt = performance.now();
      const cpuBefore = process.cpuUsage();
      let cycles = 0;
      await together(inFlight, async () => {
        while (performance.now() - startedAt < ms) {
          await cycle();
          cycles += 1;
        }
      });
      rates.push((cycles * 1000) / (performance.now() - startedAt));
      const { user, system } = process.cpuUsage(cpuBefore);
      cpuUs.push((user + system) / cycles);
    },
    close: () => engine[Symbol.asyncDispose](),
  };
}

/** Makes lanes that have spent their rate and have a ready task, and gives the others any rate; the bytes of each. */
async function block(
  broker: ShardBroker,
  { lanes, blocked }: { readonly lanes: number; readonly blocked: number },
): Promise<number> {
  await broker.putTopic(queue, { ...policy, lanes: { concurrency: 0, rate: oneTask } });
  for (let n = 0; n < lanes; n++) {
    await broker.setLane({ ...queue, lane: `lane-${n}` }, { ...noLaneLimits, rate: anyNumber });
  }
  const before = heldBytes();
  let next = 0;
  await together(256, async () => {
    while (next < blocked) {
      // As it comes from a request: a text that is put together takes more memory.
      const lane = Buffer.from(`blocked-${next}`).toString();
      next += 1;
      await cycleOne(broker, workerId, { lane });
      await enqueueOne(broker, { lane });
    }
  });
  return (heldBytes() - before) / blocked;
}

/** How long tasks of quiet lanes wait for a worker. */
async function measurePickup(
  workspace: Workspace,
  of: {
    readonly mode: Mode;
    readonly slots: number;
    readonly seconds: number;
    readonly turns: number;
    readonly isFlooded: boolean;
  },
): Promise<Histogram> {
  const { broker, engine } = await openBroker(workspace.newDirectory(), { ...of, flushMiB: 6 });
  const lanes = { concurrency: Math.ceil(of.slots / 2) };
  await broker.putTopic(queue, { ...policy, lanes });
  const pickup = new Histogram();
  const sent = new Map<string, number[]>();
  const endsAt = performance.now() + of.seconds * of.turns * 1000;
  const isOver = (): boolean => performance.now() >= endsAt;
  const work = async (): Promise<void> => {
    const request = { ...queue, workerId, queues: [queue.name], leaseMs: 60_000, count: 1 };
    while (!isOver()) {
      const [claimed] = await claim(broker, { ...request, waitMs: 100 });
      if (claimed === undefined) continue;
      const { id, lane } = claimed.task;
      const sentAt = sent.get(lane?.name ?? "")?.shift();
      if (sentAt !== undefined) pickup.add(performance.now() - sentAt);
      else if (of.isFlooded) void enqueueOne(broker, { lane: "flood" });
      await pause(workMs);
      await ask((waiter) => {
        broker.submit({ ...queue, id, owner: { workerId } }, success, waiter);
      });
    }
  };
  // Each task of the flood that is taken brings another one.
  const backlog = of.isFlooded ? of.slots * 100 : 0;
  for (let n = 0; n < backlog; n++) await enqueueOne(broker, { lane: "flood" });
  const workers = together(of.slots, work);
  for (let n = 0; !isOver(); n++) {
    const lane = `quiet-${n % quietLanes}`;
    sent.set(lane, [...(sent.get(lane) ?? []), performance.now()]);
    await enqueueOne(broker, { lane });
    await pause(quietMs);
  }
  await workers;
  await engine[Symbol.asyncDispose]();
  return pickup;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function together(count: number, run: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, run));
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >>> 1] ?? 0;
}

function printRow(cells: readonly string[]): void {
  console.log(cells.map((cell) => cell.padStart(columnWidth)).join(""));
}
