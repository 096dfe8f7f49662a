/** Producers and workers of a soak: they never stop, whatever happens around them. */
import { type Client, codeq, Permanent, RetryIn, task, type Worker } from "@codeq/client";
import type { SimRandom } from "@codeq/simulated";
import type { Done, Ledger } from "./soak-ledger.ts";

export interface Addresses {
  readonly url: string;
  readonly streams: string;
}

const double = task<{ readonly n: number; readonly filler: string }, Done>("double", {
  lease: "3s",
  timeout: "20s",
  retry: { maxAttempts: 1000, delay: "1s" },
});

const transports = ["auto", "streams", "http"] as const;
/** Tasks that one producer has on its way. */
const inFlightMax = 24;
const workersMax = 4;

export class Load {
  readonly #addresses: Addresses;
  readonly #random: SimRandom;
  readonly #ledger: Ledger;
  readonly #clients: Client[] = [];
  readonly #workers = new Set<Worker>();
  readonly #producing: Promise<void>[] = [];
  readonly #waiting = new Set<Promise<void>>();
  #lastNumber = 0;
  #isStopping = false;

  constructor(addresses: Addresses, random: SimRandom, ledger: Ledger) {
    this.#addresses = addresses;
    this.#random = random;
    this.#ledger = ledger;
  }

  start(): void {
    for (const transport of transports) {
      const client = this.#client(transport);
      for (let line = 0; line < inFlightMax / 3; line += 1) {
        this.#producing.push(this.#produce(client));
      }
    }
    while (this.#workers.size < workersMax) this.#startWorker();
  }

  /** Closes a worker in good order, or ends it as a crash would; another one takes its place. */
  replaceWorker(how: "close" | "crash"): void {
    const worker = this.#random.pick([...this.#workers]);
    this.#workers.delete(worker);
    this.#startWorker();
    if (how === "crash") {
      (worker as Worker & { crash(): void }).crash();
      return;
    }
    worker.close({ grace: this.#random.int(300) }).catch(({ code }: { code: string }) => {
      // In the worst weather the server cannot be told; then the leases have to run out.
      if (code !== "unavailable") this.#ledger.problem(`closing a worker: ${code}`);
    });
  }

  /** Produces no more, and resolves when everything that was acknowledged has its result. */
  async finish(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#producing);
    await Promise.all(this.#waiting);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.close({ grace: 0 })));
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  #client(transport: (typeof transports)[number]): Client {
    const { url, streams } = this.#addresses;
    const client = codeq({ url, streams, transport, onWarning: () => {} });
    this.#clients.push(client);
    return client;
  }

  async #produce(client: Client): Promise<void> {
    while (!this.#isStopping) {
      this.#lastNumber += 1;
      const n = this.#lastNumber;
      const filler = "x".repeat(this.#random.int(500));
      const delay = this.#random.int(10) === 0 ? "1s" : 0;
      try {
        const run = await client.enqueue(double, { n, filler }, { timeout: "60s", delay });
        this.#ledger.stored(n, run.id);
        const settled = run.result().then(
          (result) => this.#ledger.finished(n, run.id, result),
          (error: Error) => this.#ledger.problem(`the result of ${n}: ${error.message}`),
        );
        this.#waiting.add(settled);
        void settled.finally(() => this.#waiting.delete(settled));
        // Keeps the number of open tasks bounded, so that memory can be compared.
        if (this.#waiting.size > 400) await Promise.race(this.#waiting);
      } catch (error) {
        this.#ledger.problem(`enqueue of ${n}: ${(error as Error).message}`);
      }
    }
  }

  #startWorker(): void {
    const client = this.#clients[this.#random.int(this.#clients.length)] as Client;
    const worker = client.worker(
      double.handle((input, ctx) => this.#work(input.n, ctx)),
      {
        concurrency: 8,
        on: {
          completed: (ctx, output) => this.#ledger.completed(output as Done, ctx.id),
          failed: () => {},
          refused: (error) => this.#ledger.refused(error),
          warning: () => {},
          connection: (problem) => {
            if (problem === undefined) this.#ledger.connections += 1;
          },
        },
      },
    );
    this.#workers.add(worker);
  }

  async #work(
    n: number,
    ctx: { readonly id: string; readonly attempt: number; readonly signal: AbortSignal },
  ): Promise<Done> {
    this.#ledger.delivered(n, ctx.id);
    const dice = this.#random.int(100);
    if (dice < 3 && ctx.attempt < 3) throw new Error("a bug that comes and goes");
    if (dice < 5 && ctx.attempt < 3) throw new RetryIn("1s", "not now");
    if (n < 0) throw new Permanent("there are no such numbers");
    if (dice < 15) await this.#later(dice * 40, ctx.signal);
    return { n, doubled: n * 2 };
  }

  /** Work that takes a while and stops when it is told to. */
  #later(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve(), ms);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(signal.reason);
      });
    });
  }
}
