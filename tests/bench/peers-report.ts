/** What the rounds of the peers benchmark brought, their medians, and whether the aims are reached. */
import type { Measured } from "./measure.ts";
import { bothMs, fullSide, percent, printRow } from "./table.ts";

const contenders = ["codeQ", "BullMQ", "beanstalkd", "beanstalkd -f0"] as const;
export type ContenderName = (typeof contenders)[number];
export type JobName = "one at a time" | "batches" | "pickup";

const columnWidth = 14;
const columns = [
  ...["", "job", "tasks/s", "server us", "client us", "server %", "client %", "full", "other"],
  "pickup",
];
const medianColumns = [
  ...["", "one at a time", "server us", "ratio", "batches", "server us", "ratio"],
  ...["pickup p50", "pickup p99"],
];

export class PeersReport {
  readonly #measured: {
    readonly contender: ContenderName;
    readonly job: JobName;
    readonly measured: Measured;
  }[] = [];

  /** Keeps what was measured, and prints it. */
  add(contender: ContenderName, job: JobName, measured: Measured): void {
    if (this.#measured.length === 0) printRow(columns, columnWidth);
    this.#measured.push({ contender, job, measured });
    const { server, client, latency } = measured;
    const cells = [
      ...[contender, job, measured.cyclesPerSecond.toFixed(0)],
      ...[server.usPerCycle.toFixed(1), client.usPerCycle.toFixed(1)],
      ...[percent(server), percent(client), fullSide(measured), measured.otherCpus.toFixed(1)],
      bothMs(latency.pickup),
    ];
    printRow(cells, columnWidth);
  }

  printMedians(): void {
    console.log("\nmedians; a ratio is our rate divided by theirs");
    printRow(medianColumns, columnWidth);
    for (const contender of contenders) {
      const cellsOf = (job: JobName): string[] => [
        this.#rate(contender, job).toFixed(0),
        this.#median(contender, job, ({ server }) => server.usPerCycle).toFixed(1),
        (this.#rate("codeQ", job) / this.#rate(contender, job)).toFixed(2),
      ];
      const pickup = (["p50Ms", "p99Ms"] as const).map((name) =>
        this.#pickup(contender, name).toFixed(2),
      );
      const cells = [contender, ...cellsOf("one at a time"), ...cellsOf("batches"), ...pickup];
      printRow(cells, columnWidth);
    }
  }

  printAims(): void {
    const oneAtATime = (peer: ContenderName): number =>
      this.#rate("codeQ", "one at a time") / this.#rate(peer, "one at a time");
    const best = Math.max(
      ...(["beanstalkd", "beanstalkd -f0"] as const).flatMap((peer) =>
        (["one at a time", "batches"] as const).map((job) => this.#rate(peer, job)),
      ),
    );
    console.log("\naims");
    printAim("one at a time, at least 2.5 times BullMQ", oneAtATime("BullMQ"), 2.5);
    printAim("one at a time, at least 1.2 times beanstalkd", oneAtATime("beanstalkd"), 1.2);
    printAim("one at a time, at least 6 times beanstalkd -f0", oneAtATime("beanstalkd -f0"), 6);
    const batches = this.#rate("codeQ", "batches") / best;
    printAim("batches, at least 2 times the best of beanstalkd", batches, 2);
    const ourMs = this.#pickup("codeQ", "p99Ms");
    const theirMs = this.#pickup("BullMQ", "p99Ms");
    const figures = `${ourMs.toFixed(2)} and ${theirMs.toFixed(2)} ms`;
    printVerdict(ourMs <= theirMs, `pickup p99 no worse than that of BullMQ: ${figures}`);
  }

  #rate(contender: ContenderName, job: JobName): number {
    return this.#median(contender, job, ({ cyclesPerSecond }) => cyclesPerSecond);
  }

  #pickup(contender: ContenderName, name: "p50Ms" | "p99Ms"): number {
    return this.#median(contender, "pickup", ({ latency }) => latency.pickup[name] ?? Number.NaN);
  }

  #median(contender: ContenderName, job: JobName, take: (measured: Measured) => number): number {
    const values = this.#measured
      .filter((each) => each.contender === contender && each.job === job)
      .map(({ measured }) => take(measured))
      .sort((a, b) => a - b);
    const upper = values[Math.floor(values.length / 2)] ?? Number.NaN;
    const lower = values[Math.floor((values.length - 1) / 2)] ?? Number.NaN;
    return (upper + lower) / 2;
  }
}

function printAim(text: string, found: number, wanted: number): void {
  printVerdict(found >= wanted, `${text}: ${found.toFixed(2)}`);
}

function printVerdict(isReached: boolean, text: string): void {
  console.log(`  ${isReached ? "reached" : "missed "}  ${text}`);
}
