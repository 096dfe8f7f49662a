/** The clients of a soak, in a process of their own, so that its memory is theirs alone. */
import { SimRandom } from "@codeq/simulated";
import { Ledger, type SoakReport } from "./soak-ledger.ts";
import { type Addresses, Load } from "./soak-load.ts";

export interface ClientsOptions extends Addresses {
  readonly seed: string;
}

export interface ClientsReport extends SoakReport {
  /** Bytes in use after a collection, second by second. */
  readonly heap: readonly number[];
}

const options = JSON.parse(process.argv[2] ?? "{}") as ClientsOptions;
const ledger = new Ledger();
const load = new Load(options, new SimRandom(options.seed), ledger);
const heap: number[] = [];

const sampler = setInterval(() => {
  globalThis.gc?.();
  heap.push(process.memoryUsage().heapUsed);
}, 1000);

async function finish(): Promise<void> {
  clearInterval(sampler);
  await load.finish();
  await load.close();
  const report: ClientsReport = { ...ledger.report(), heap };
  process.send?.(report, () => process.disconnect());
}

process.on("message", (word: "crash" | "close" | "finish") => {
  if (word === "finish") void finish();
  else load.replaceWorker(word);
});
load.start();
