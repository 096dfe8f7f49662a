/**
 * A server process under mixed load for as long as one likes, and then the reckoning: its counters
 * equal what it stored, it holds no more memory than near the beginning, no lease is left over, and
 * every acknowledged task is there exactly once.
 */
import { SimRandom } from "@codeq/simulated";
import { readDataDirectory } from "../crash/open-store.ts";
import { ApiClient } from "../e2e/api-client.ts";
import { type Memory, measurable } from "../e2e/server-memory.ts";
import { type ServerProcess, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import {
  compareCounters,
  compareRest,
  compareTold,
  type Places,
  parseScrape,
  placesIn,
  type Scrape,
  sumOf,
} from "./checks.ts";
import { Ledger } from "./ledger.ts";
import { MemoryWindows } from "./memory-windows.ts";
import { Receivers } from "./receivers.ts";
import { SteadyClients } from "./steady-clients.ts";
import { Troublemakers } from "./troublemakers.ts";
import type { SoakWorld } from "./world.ts";

export interface SoakOptions {
  readonly seconds: number;
  readonly seed: string;
  /** Tasks per second on the steady streams. */
  readonly rate: number;
  readonly onProgress: (progress: Progress) => void;
}

export interface Progress {
  readonly seconds: number;
  readonly scrape: Scrape;
  readonly ledger: Ledger;
}

export interface SoakReport {
  readonly problems: readonly string[];
  readonly ledger: Ledger;
  readonly scrape: Scrape;
  readonly places: Places;
  /** The median of several looks near the beginning, and the same near the end. */
  readonly early: Memory;
  readonly late: Memory;
  readonly drainSeconds: number;
}

const mebibyte = 1024 * 1024;
/**
 * What may be more near the end than near the beginning. Writes that wait for their flush come and
 * go, and so do the store's buffers; a few bytes kept for each task of ten minutes are twice as much.
 */
export const heapGrowthMax: number = 16 * mebibyte;
export const residentGrowthMax: number = 96 * mebibyte;
/** The process has not got all its buffers yet; only the heap says something so early. */
const warmUpGrowthMax = 512 * mebibyte;

const tickMs = 100;
const progressMs = 10_000;
/** Without a task that ends for so long and twice the longest lease, what is left never ends. */
const drainMsMore = 30_000;
/** Without a webhook for so long, the others never arrive. */
const toldMsMax = 10_000;
/** No more is created while so much is waiting. */
const backlogMax = 20_000;
/** From this on the leases and pauses are long enough to overlap with everything else. */
const longSeconds = 60;

export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const directory = temporaryDirectory();
  const server = await startServer({
    dataDir: directory.path,
    env: {
      BACKOFF_POLICY: "fixed",
      BACKOFF_BASE_SECONDS: "1",
      DEFAULT_LEASE_SECONDS: "5",
      CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true",
      MALLOC_ARENA_MAX: "2",
      UV_THREADPOOL_SIZE: "8",
    },
    nodeArgs: ["--max-semi-space-size=8", ...measurable],
  });
  const ledger = new Ledger();
  const receivers = new Receivers(ledger);
  try {
    await receivers.listen();
    return await new Soak(options, server, { dataDir: directory.path, ledger, receivers }).run();
  } finally {
    await receivers[Symbol.asyncDispose]();
    await server.kill();
    directory.dispose();
  }
}

class Soak {
  readonly #options: SoakOptions;
  readonly #server: ServerProcess;
  readonly #dataDir: string;
  readonly #world: SoakWorld;
  readonly #steady: SteadyClients;
  readonly #trouble: Troublemakers;

  constructor(
    options: SoakOptions,
    server: ServerProcess,
    of: { readonly dataDir: string; readonly ledger: Ledger; readonly receivers: Receivers },
  ) {
    this.#options = options;
    this.#server = server;
    this.#dataDir = of.dataDir;
    const isLong = options.seconds >= longSeconds;
    this.#world = {
      api: new ApiClient(server.port, 16),
      ledger: of.ledger,
      receivers: of.receivers,
      random: new SimRandom(options.seed),
      workerPort: server.workerStreamPort,
      producerPort: server.producerStreamPort,
      leaseSeconds: isLong ? [2, 20] : [1, 4],
      slowTicks: isLong ? [20, 80, 200] : [10, 30],
      bulkWanted: 0,
      isDraining: false,
    };
    this.#steady = new SteadyClients(this.#world);
    this.#trouble = new Troublemakers(this.#world);
  }

  async run(): Promise<SoakReport> {
    const { ledger, api } = this.#world;
    this.#steady.start();
    const { early, late } = await this.#load();
    const drainSeconds = await this.#drain();
    await this.#untilTold();
    await this.#steady.end();
    const scrape = await this.#atRest();
    api.close();
    const exit = await this.#server.stop();
    if (exit.code !== 0) ledger.problem(`the server ended with ${exit.code}: ${exit.stderr}`);
    for (const line of exit.stdout.split("\n")) {
      if (line.includes('"level":"error"')) ledger.problem(`the server logged ${line}`);
    }
    const store = await readDataDirectory(this.#dataDir);
    const problems = [
      ...ledger.problems,
      ...compareRest(scrape),
      ...compareCounters(scrape, store),
      ...compareTold(ledger, store),
      ...this.#compareMemory(early, late),
    ];
    return { problems, ledger, scrape, places: placesIn(store), early, late, drainSeconds };
  }

  /** Ticks until the time is over; looks at the memory on the way. */
  async #load(): Promise<{ early: Memory; late: Memory }> {
    const { seconds } = this.#options;
    const startedMs = performance.now();
    const windows = new MemoryWindows(this.#server);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let nextProgressMs = progressMs;
    const timer = setInterval(() => {
      const passedMs = performance.now() - startedMs;
      const share = passedMs / (seconds * 1000);
      windows.at(share);
      if (passedMs >= nextProgressMs) {
        nextProgressMs += progressMs;
        this.#tellProgress(passedMs).catch(reject);
      }
      if (share >= 1) resolve();
      else this.#tickLoad();
    }, tickMs);
    const ended = this.#server.exited.then(({ stderr }) => {
      throw new Error(`the server ended: ${stderr}`);
    });
    try {
      await Promise.race([promise, ended]);
    } finally {
      clearInterval(timer);
      ended.catch(() => {});
    }
    return await windows.conclude();
  }

  #tickLoad(): void {
    const { ledger } = this.#world;
    const ended = ledger.total("completed") + ledger.total("failed");
    const backlog = ledger.total("creates acknowledged") - ended;
    const count = (this.#options.rate * tickMs) / 1000;
    this.#steady.tick(backlog < backlogMax ? count : 0);
    this.#trouble.tick();
  }

  async #tellProgress(passedMs: number): Promise<void> {
    const scrape = await this.#scrape();
    this.#options.onProgress({
      seconds: Math.round(passedMs / 1000),
      scrape,
      ledger: this.#world.ledger,
    });
  }

  /** The troublemakers are gone; the steady workers work off what is left. */
  async #drain(): Promise<number> {
    const startedMs = performance.now();
    this.#world.isDraining = true;
    this.#trouble.end();
    await this.#steady.quiet();
    this.#steady.workOff();
    const stuckMs = this.#world.leaseSeconds[1] * 2000 + drainMsMore;
    let fewest = Number.POSITIVE_INFINITY;
    for (let lastMs = startedMs; ; ) {
      const scrape = await this.#scrape();
      const left = ["ready", "delayed", "in_progress"].map((place) =>
        sumOf(scrape, "codeq_queue_depth", `queue="${place}"`),
      );
      const count = left.reduce((sum, each) => sum + each, 0);
      const nowMs = performance.now();
      if (count < fewest) lastMs = nowMs;
      fewest = Math.min(fewest, count);
      const isStuck = nowMs - lastMs > stuckMs;
      if (isStuck) this.#world.ledger.problem(`ready, delayed and in progress were left: ${left}`);
      if (isStuck || count === 0) return (nowMs - startedMs) / 1000;
    }
  }

  /** Receivers that do not answer hold up nobody's webhooks to the good one. */
  async #untilTold(): Promise<void> {
    const { ledger, receivers } = this.#world;
    const prefix = receivers.urlOf("good", 0).slice(0, -1);
    const wanted = ledger.stories.filter(
      ({ webhook, id, told }) =>
        webhook.startsWith(prefix) && id !== "" && told !== "created" && told !== "nothing",
    );
    const missingNow = (): number => wanted.filter(({ id }) => !receivers.told.has(id)).length;
    let missing = missingNow();
    for (let lastMs = performance.now(); missing > 0 && performance.now() - lastMs < toldMsMax; ) {
      await this.#scrape();
      const left = missingNow();
      if (left < missing) lastMs = performance.now();
      missing = left;
    }
    ledger.count("webhooks that the good receiver waits for", wanted.length);
    if (missing > 0) ledger.problem(`${missing} of ${wanted.length} webhooks did not arrive`);
  }

  /** The last scrape, once the server has noticed that everybody is gone. */
  async #atRest(): Promise<Scrape> {
    for (let looked = 0; ; looked += 1) {
      const scrape = await this.#scrape();
      const left = sumOf(scrape, "codeq_connections", 'listener="grpc"');
      if (left === 0 || looked > 1000) return scrape;
    }
  }

  async #scrape(): Promise<Scrape> {
    return parseScrape((await this.#world.api.page("/metrics")).text);
  }

  #compareMemory(early: Memory, late: Memory): string[] {
    const isLong = this.#options.seconds >= longSeconds;
    const grown: readonly (readonly [string, number, number])[] = [
      ["the heap", late.heap - early.heap, heapGrowthMax],
      [
        "the resident memory",
        late.resident - early.resident,
        isLong ? residentGrowthMax : warmUpGrowthMax,
      ],
    ];
    return grown
      .filter(([, growth, max]) => growth > max)
      .map(([what, growth]) => `${what} has grown by ${Math.round(growth / mebibyte)} MiB`);
  }
}
