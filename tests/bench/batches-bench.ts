/** What batches cost: the end of a member compared with that of another task, and batches that are open and at rest. */
import { setTimeout as pause } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { limits } from "@codeq/protocol";
import type { TaskId, WorkerId } from "@codeq/queue";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import { figure, median } from "./figures.ts";
import {
  claimSome,
  completeOne,
  enqueueOne,
  type Mode,
  openBroker,
  tenantId,
} from "./open-broker.ts";
import { choice, readOptions, UsageError, wholeNumber, wholeNumbers } from "./options.ts";
import { atRest, settleMs } from "./rest-bench.ts";
import { progress, Table } from "./table.ts";
import { ask, Workspace } from "./workspace.ts";

export const batchesHelp = `the ends of the members of one batch and of other tasks, by turns; open batches at rest
    --mode os                  durability mode
    --members 10000            that end per turn; at most 100,000 in all
    --in-flight 256            ends at the same time
    --turns 9
    --batches 1,10000          open, without members, on a server without work; as many requests each time
    --seconds 20               at rest; 0 leaves that out
  heap B is what the heap has grown by for each member or task that has ended, after a collection of garbage`;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const workerId = "bench" as WorkerId;
const id = "bench";
const callback = {
  command: "report",
  payload: "{}",
  priority: 0,
  webhook: "",
  maxAttempts: 5,
  timeoutSeconds: 0,
  ttlSeconds: 0,
  tags: [],
  on: "end",
  failFast: false,
  openSeconds: limits.batchOpenSecondsMax,
} as const;

interface Sizes {
  readonly mode: Mode;
  readonly members: number;
  readonly "in-flight": number;
  readonly turns: number;
}

export async function batchesBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choice<Mode>(["fsync", "interval", "os"], "os"),
    members: wholeNumber("10000"),
    "in-flight": wholeNumber("256"),
    turns: wholeNumber("9"),
    batches: wholeNumbers("1,10000"),
    seconds: wholeNumber("20", 0),
  });
  const { batchMembersMax } = limits;
  if (values.members * values.turns > batchMembersMax) {
    throw new UsageError(`--members times --turns is more than ${batchMembersMax}`);
  }
  await using workspace = new Workspace();
  await endsByTurns(workspace, values);
  if (values.seconds > 0) await openAtRest(values.batches, values.seconds);
}

async function endsByTurns(workspace: Workspace, sizes: Sizes): Promise<void> {
  const cases = [await openCase(workspace, sizes, "no batch")];
  cases.push(await openCase(workspace, sizes, "one batch"));
  for (let turn = 0; turn < sizes.turns; turn++) {
    // Whichever comes second finds the caches warm.
    for (const each of turn % 2 === 0 ? cases : cases.toReversed()) await each.run();
  }
  const [base = 1] = cases.map(({ cpuUs }) => median(cpuUs) ?? 0);
  const table = new Table(["tasks of"]);
  for (const { name, cpuUs, heapBytes } of cases) {
    const us = median(cpuUs) ?? 0;
    table.add(
      [name],
      [
        figure("us per end", us, 2),
        figure("of first", us / base, 2),
        figure("heap B", heapBytes() / (sizes.members * sizes.turns)),
      ],
    );
  }
  for (const each of cases) await each.close();
}

interface Case {
  readonly name: string;
  /** CPU time of an end, of each turn. */
  readonly cpuUs: readonly number[];
  /** By how much the turns let the heap grow. */
  heapBytes(): number;
  run(): Promise<void>;
  close(): Promise<void>;
}

async function openCase(
  workspace: Workspace,
  { mode, members, "in-flight": inFlight }: Sizes,
  name: "no batch" | "one batch",
): Promise<Case> {
  const { broker, engine } = await openBroker(workspace.newDirectory(), { mode, flushMiB: 6 });
  if (name === "one batch") await broker.batches.put({ tenantId, id }, callback);
  const fields = name === "one batch" ? { batchId: id } : undefined;
  const cpuUs: number[] = [];
  let heapBytes = 0;
  const run = async (): Promise<void> => {
    const heapBefore = heapUsed();
    await Promise.all(Array.from({ length: members }, () => enqueueOne(broker, fields)));
    const ids: TaskId[] = [];
    while (ids.length < members) ids.push(...(await claimSome(broker, workerId, inFlight)));
    // A flush is a large part of the cost: as many as in the other case fall into the ends.
    await engine.flushNow();
    cpuUs.push(await cpuOfEnds(broker, ids, inFlight));
    heapBytes += heapUsed() - heapBefore;
  };
  return {
    name,
    cpuUs,
    heapBytes: () => heapBytes,
    run,
    close: () => engine[Symbol.asyncDispose](),
  };
}

async function cpuOfEnds(
  broker: ShardBroker,
  ids: readonly TaskId[],
  inFlight: number,
): Promise<number> {
  const left = ids.values();
  const cpu = process.cpuUsage();
  const end = async (): Promise<void> => {
    for (const each of left) await completeOne(broker, workerId, each);
  };
  await Promise.all(Array.from({ length: inFlight }, end));
  const { user, system } = process.cpuUsage(cpu);
  return (user + system) / ids.length;
}

function heapUsed(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

async function openAtRest(counts: readonly number[], seconds: number): Promise<void> {
  const table = new Table(["open batches"]);
  for (const count of counts) {
    await using workspace = new Workspace();
    const server = await workspace.startServer({
      CODEQ_DURABILITY: "os",
      CODEQ_DATA_DIR: workspace.newDirectory(),
    });
    progress(`${count} batches are created`);
    const body = { command: "report", payload: {} };
    const requests = Math.max(...counts);
    for (let at = 0; at < requests; at++) {
      await ask(server, `/batches/rest-${at % count}`, body, "PUT");
    }
    await pause(settleMs);
    table.add([String(count)], await atRest(server, seconds));
    await workspace.stop(server.child);
  }
}
