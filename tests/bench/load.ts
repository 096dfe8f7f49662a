/**
 * What every load does, whichever queue it is for: it is started by `measure`, works until it is told
 * to stop, and counts between the words begin and end. `closed` keeps producers and worker slots busy;
 * `paced` creates tasks at a fixed rate and looks how long they take to reach a handler.
 */
import { Histogram } from "./histogram.ts";

export interface LoadOptions {
  readonly part: "closed" | "paced";
  readonly producers: number;
  /** Tasks, or batches of them, that workers have in hand at the same time. */
  readonly slots: number;
  /** Tasks in each message that creates; one for messages without a list. */
  readonly batch: number;
  /** Tasks that a worker asks for at once. */
  readonly batchOut: number;
  /** For `paced`. */
  readonly tasksPerSecond: number;
}

const latencyNames = ["create", "claim", "submit", "pickup", "cycle"] as const;
export type LatencyName = (typeof latencyNames)[number];

/** In milliseconds; undefined when nothing of the kind happened. */
export interface Latency {
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
}

export interface LoadReport {
  readonly seconds: number;
  /** Tasks whose result was acknowledged. */
  readonly finished: number;
  /** Messages or calls that brought tasks to a worker. */
  readonly deliveries: number;
  readonly latency: Readonly<Record<LatencyName, Latency>>;
}

/** Counts while it is on. */
export class Meter {
  readonly #latencies: Readonly<Record<LatencyName, Histogram>> = {
    create: new Histogram(),
    claim: new Histogram(),
    submit: new Histogram(),
    pickup: new Histogram(),
    cycle: new Histogram(),
  };
  #isOn = false;
  #beganMs = 0;
  #finished = 0;
  #deliveries = 0;
  #onFinished: () => void = () => {};

  begin(): void {
    for (const name of latencyNames) this.#latencies[name].clear();
    this.#finished = 0;
    this.#deliveries = 0;
    this.#beganMs = performance.now();
    this.#isOn = true;
  }

  /** After something was finished: a time without that says nothing. */
  async end(): Promise<LoadReport> {
    if (this.#finished === 0) {
      await new Promise<void>((resolve) => {
        this.#onFinished = resolve;
      });
    }
    this.#isOn = false;
    const latency = (name: LatencyName): Latency => ({
      p50Ms: this.#latencies[name].quantile(0.5),
      p99Ms: this.#latencies[name].quantile(0.99),
    });
    return {
      seconds: (performance.now() - this.#beganMs) / 1000,
      finished: this.#finished,
      deliveries: this.#deliveries,
      latency: {
        create: latency("create"),
        claim: latency("claim"),
        submit: latency("submit"),
        pickup: latency("pickup"),
        cycle: latency("cycle"),
      },
    };
  }

  took(name: LatencyName, ms: number): void {
    if (this.#isOn) this.#latencies[name].add(ms);
  }

  delivered(): void {
    if (this.#isOn) this.#deliveries += 1;
  }

  finished(count: number): void {
    if (!this.#isOn) return;
    this.#finished += count;
    this.#onFinished();
  }
}

/** How a queue is asked to take one message of tasks; `done` follows its acknowledgement. */
export type CreateCall = (producer: number, payload: string, done: () => void) => void;

/**
 * Producers that create again as soon as they are answered. They wait while as much is unfinished as
 * all producers and slots together can hold, so that no queue is credited for a backlog it builds up.
 */
class ClosedLoop {
  readonly #options: LoadOptions;
  readonly #create: CreateCall;
  readonly #unfinishedMax: number;
  readonly #resting: number[] = [];
  #unfinished = 0;

  constructor(options: LoadOptions, create: CreateCall) {
    this.#options = options;
    this.#create = create;
    this.#unfinishedMax = options.producers * options.batch + options.slots * options.batchOut;
  }

  start(): void {
    for (let producer = 0; producer < this.#options.producers; producer += 1) this.#next(producer);
  }

  finished(count: number): void {
    this.#unfinished -= count;
    while (this.#resting.length > 0 && this.#hasRoom()) this.#next(this.#resting.pop() ?? 0);
  }

  #hasRoom(): boolean {
    return this.#unfinished + this.#options.batch <= this.#unfinishedMax;
  }

  #next(producer: number): void {
    if (!this.#hasRoom()) {
      this.#resting.push(producer);
      return;
    }
    this.#unfinished += this.#options.batch;
    this.#create(producer, closedPayload, () => this.#next(producer));
  }
}

/** Creates on time whether or not the last one was answered. */
function createAtRate(options: LoadOptions, create: CreateCall): void {
  let count = 0;
  atRate(options.tasksPerSecond, () => {
    count += 1;
    create(count % options.producers, payloadAt(performance.now()), () => {});
  });
}

/** Calls on time for ever; `run` is told when it was due. */
export function atRate(perSecond: number, run: (dueMs: number) => void): void {
  const startedMs = performance.now();
  let count = 0;
  const dueMs = (): number => startedMs + (count * 1000) / perSecond;
  const next = (): void => {
    const nowMs = performance.now();
    for (; dueMs() <= nowMs; count += 1) run(dueMs());
    setTimeout(next, Math.max(0, dueMs() - performance.now()));
  };
  next();
}

const payloadBytes = 100;
const momentDigits = 14;
const momentAt = '{"at":"'.length;

/** JSON of 100 bytes that says when it was made. */
function payloadAt(ms: number): string {
  const moment = String(Math.round(ms * 1000)).padStart(momentDigits, "0");
  const head = `{"at":"${moment}","data":"`;
  return `${head}${"x".repeat(payloadBytes - head.length - 2)}"}`;
}

const closedPayload = payloadAt(0);

/** How long ago, in milliseconds, a payload of this process was made. */
export function ageOf(payload: string): number {
  const moment = Number(payload.slice(momentAt, momentAt + momentDigits));
  return performance.now() - moment / 1000;
}

/** What a load gets from its queue: a way to create, and workers that are running. */
export interface QueueClient {
  readonly create: CreateCall;
}

/**
 * Runs the load that this process was started for. `connect` opens connections and starts the worker
 * slots; those tell the meter what they measure, and `finished` how many results were acknowledged.
 */
export async function runLoad<Options extends LoadOptions>(
  connect: (
    options: Options,
    meter: Meter,
    finished: (count: number) => void,
  ) => Promise<QueueClient>,
): Promise<void> {
  const options = JSON.parse(process.argv[2] ?? "{}") as Options;
  const meter = new Meter();
  let loop: ClosedLoop | undefined;
  const finished = (count: number): void => {
    meter.finished(count);
    loop?.finished(count);
  };
  const { create } = await connect(options, meter, finished);
  if (options.part === "closed") {
    loop = new ClosedLoop(options, create);
    loop.start();
  } else {
    createAtRate(options, create);
  }
  await answerWith(meter);
}

/** Says that the load works, once it has finished something, and counts as it is told to. */
export async function answerWith(meter: Meter): Promise<void> {
  process.on("disconnect", () => process.exit());
  meter.begin();
  await meter.end();
  process.on("message", (word) => {
    if (word === "begin") meter.begin();
    else void meter.end().then((report) => process.send?.(report));
  });
  process.send?.("ready");
}
