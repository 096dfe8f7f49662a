/**
 * Full cycles in process (enqueue, claim, submit) on a queue without lanes and on queues with lanes. All of them are
 * open at the same time and measured by turns, so that other load on the machine meets all of them.
 */
import type { WorkerId } from "@codeq/queue";
import { cycleOne, type Mode, openBroker } from "./open-broker.ts";
import { choices, readOptions, wholeNumber, wholeNumbers } from "./options.ts";
import { Workspace } from "./workspace.ts";

export const lanesHelp = `full cycles in process with 0 (no lanes), 1, 100 and 10,000 lanes, by turns
    --mode os                  durability mode
    --lanes 0,1,100,10000      how many lanes the tasks have; 0 for none
    --in-flight 256            cycles at the same time
    --seconds 2                per turn
    --turns 5`;

const columnWidth = 12;
const workerId = "bench" as WorkerId;

export async function lanesBench(args: readonly string[]): Promise<void> {
  const values = readOptions(args, {
    mode: choices(["fsync", "interval", "os"], "os"),
    lanes: wholeNumbers("0,1,100,10000", 0),
    "in-flight": wholeNumber("256"),
    seconds: wholeNumber("2"),
    turns: wholeNumber("5"),
  });
  await using workspace = new Workspace();
  for (const mode of values.mode) {
    const cases: Case[] = [];
    for (const lanes of values.lanes) cases.push(await openCase(workspace, mode, lanes));
    for (let turn = 0; turn < values.turns; turn++) {
      for (const each of cases) await each.run(values["in-flight"], values.seconds * 1000);
    }
    const base = median(cases[0]?.rates ?? []);
    printRow(["mode", "lanes", "cycles/s", "of first"]);
    for (const { lanes, rates } of cases) {
      const rate = median(rates);
      printRow([mode, String(lanes), rate.toFixed(0), (rate / base).toFixed(2)]);
    }
    for (const each of cases) await each.close();
  }
}

interface Case {
  readonly lanes: number;
  /** Cycles per second of each turn. */
  readonly rates: readonly number[];
  run(inFlight: number, ms: number): Promise<void>;
  close(): Promise<void>;
}

async function openCase(workspace: Workspace, mode: Mode, lanes: number): Promise<Case> {
  const { broker, engine } = await openBroker(workspace.newDirectory(), { mode, flushMiB: 6 });
  const rates: number[] = [];
  let task = 0;
  const cycle = (): Promise<void> => {
    task += 1;
    return cycleOne(broker, workerId, lanes === 0 ? undefined : { lane: `lane-${task % lanes}` });
  };
  return {
    lanes,
    rates,
    run: async (inFlight, ms) => {
      const startedAt = performance.now();
      let cycles = 0;
      const go = async (): Promise<void> => {
        while (performance.now() - startedAt < ms) {
          await cycle();
          cycles += 1;
        }
      };
      await Promise.all(Array.from({ length: inFlight }, go));
      rates.push((cycles * 1000) / (performance.now() - startedAt));
    },
    close: () => engine[Symbol.asyncDispose](),
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >>> 1] ?? 0;
}

function printRow(cells: readonly string[]): void {
  console.log(cells.map((cell) => cell.padStart(columnWidth)).join(""));
}
