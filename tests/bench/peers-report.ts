/** What the rounds of the peers benchmark brought, their medians, and whether the aims are reached. */
import { cycleFigures, type Figure, figure, latencyFigure, median } from "./figures.ts";
import type { Measured } from "./measure.ts";
import { Table } from "./table.ts";

const contenders = ["codeQ", "codeQ, Go", "BullMQ", "beanstalkd", "beanstalkd -f0"] as const;
export type ContenderName = (typeof contenders)[number];
const jobs = ["one at a time", "batches", "light load"] as const;
export type JobName = (typeof jobs)[number];

const labelWidth = 15;

export class PeersReport {
  readonly #rounds = new Table(["queue", "job"], labelWidth);
  readonly #measured: {
    readonly contender: ContenderName;
    readonly job: JobName;
    readonly measured: Measured;
  }[] = [];

  /** Keeps what was measured, and prints it. */
  add(contender: ContenderName, job: JobName, measured: Measured): void {
    this.#measured.push({ contender, job, measured });
    const { create, pickup } = measured.latency;
    const latencies = [latencyFigure("create", create), latencyFigure("pickup", pickup)];
    this.#rounds.add([contender, job], [...cycleFigures(measured), ...latencies]);
  }

  printMedians(): void {
    console.log("\nmedians; a ratio is our rate divided by theirs");
    const table = new Table(["queue", "job"], labelWidth);
    for (const job of jobs) {
      for (const contender of contenders) {
        const isThere = this.#of(contender, job).length > 0;
        if (isThere) table.add([contender, job], this.#medianFigures(contender, job));
      }
    }
  }

  #medianFigures(contender: ContenderName, job: JobName): Figure[] {
    const of = (take: (measured: Measured) => number | undefined): number =>
      this.#median(contender, job, take);
    const pickup = {
      p50Ms: of(({ latency }) => latency.pickup.p50Ms),
      p99Ms: of(({ latency }) => latency.pickup.p99Ms),
    };
    const ratio = this.#rate("codeQ", job) / this.#rate(contender, job);
    return [
      figure("tasks/s", this.#rate(contender, job)),
      figure("ratio", job === "light load" ? undefined : ratio, 2),
      figure(
        "server us",
        of(({ server }) => server.usPerCycle),
        1,
      ),
      figure(
        "client us",
        of(({ client }) => client.usPerCycle),
        1,
      ),
      latencyFigure("pickup", pickup),
    ];
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
    return this.#median(contender, "light load", ({ latency }) => latency.pickup[name]);
  }

  /** NaN when there is nothing to take. */
  #median(
    contender: ContenderName,
    job: JobName,
    take: (measured: Measured) => number | undefined,
  ): number {
    return median(this.#of(contender, job).map(take)) ?? Number.NaN;
  }

  #of(contender: ContenderName, job: JobName): Measured[] {
    return this.#measured
      .filter((each) => each.contender === contender && each.job === job)
      .map(({ measured }) => measured);
  }
}

function printAim(text: string, found: number, wanted: number): void {
  printVerdict(found >= wanted, `${text}: ${found.toFixed(2)}`);
}

function printVerdict(isReached: boolean, text: string): void {
  console.log(`  ${isReached ? "reached" : "missed "}  ${text}`);
}
