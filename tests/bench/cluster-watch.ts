/**
 * What clients notice while something happens to a cluster. Plain requests show for how long it acknowledges
 * nothing; they go to nodes that stay, and none is repeated. The client library, over streams and over HTTP, knows
 * all nodes and has to get every call answered.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, codeq, type Task, task } from "@codeq/client";
import { ApiClient } from "../e2e/api-client.ts";
import type { ClusterNodes } from "./cluster-nodes.ts";
import { nodeIds } from "./cluster-nodes.ts";
import { Histogram } from "./histogram.ts";
import type { Latency } from "./load.ts";

/** What was seen from the beginning of an action to its end. */
export interface Seen {
  /** The longest time without an acknowledgement of a plain request. */
  readonly pauseMs: number;
  /** Plain requests that were refused or not answered. */
  readonly refused: number;
  /** Of plain requests that were acknowledged. */
  readonly latency: Latency;
}

const retryMs = 5;
const lanesEach = 2;
/** So many acknowledgements after an action show that the cluster goes on. */
const enough = 100;
/** A task that was given out while a node died comes back when its lease ends. */
const addOne: Task<number, number> = task<number, number>("add-one", { lease: "5s" });

/** Creates tasks on each of the nodes, one after the other, and repeats none. */
class PlainRequests {
  refused = 0;
  acknowledged = 0;
  readonly latency: Histogram = new Histogram();
  readonly #paceMs: number;
  readonly #clients: readonly ApiClient[];
  readonly #lanes: Promise<unknown>;
  #isOver = false;
  #waiting: { readonly count: number; readonly resolve: () => void } | undefined;
  #lastMs = performance.now();
  #longestMs = 0;

  constructor(cluster: ClusterNodes, ids: readonly string[], paceMs: number) {
    this.#paceMs = paceMs;
    this.#clients = ids.map((id) => new ApiClient(Number(new URL(cluster.url(id)).port)));
    const lanes = Array.from({ length: lanesEach }, () => this.#clients).flat();
    this.#lanes = Promise.all(lanes.map((client) => this.#create(client)));
  }

  /** What is counted counts from now on. */
  begin(): void {
    this.refused = 0;
    this.acknowledged = 0;
    this.latency.clear();
    this.#lastMs = performance.now();
    this.#longestMs = 0;
  }

  get pauseMs(): number {
    return Math.max(this.#longestMs, performance.now() - this.#lastMs);
  }

  /** Resolves when so many more are acknowledged. */
  more(count: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting = { count: this.acknowledged + count, resolve };
    return promise;
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#lanes;
    for (const client of this.#clients) client.close();
  }

  async #create(client: ApiClient): Promise<void> {
    while (!this.#isOver) {
      const sentMs = performance.now();
      const reply = await client.create({ command: "plain", payload: {} }).catch(() => undefined);
      if (reply?.status === 202) this.#acknowledge(sentMs);
      else this.refused += 1;
      await sleep(reply?.status === 202 ? this.#paceMs : retryMs);
    }
  }

  #acknowledge(sentMs: number): void {
    const nowMs = performance.now();
    this.acknowledged += 1;
    this.latency.add(nowMs - sentMs);
    this.#longestMs = Math.max(this.#longestMs, nowMs - this.#lastMs);
    this.#lastMs = nowMs;
    if (this.acknowledged === this.#waiting?.count) this.#waiting.resolve();
  }
}

export interface CallFigures {
  readonly calls: number;
  readonly failed: number;
  readonly longestMs: number;
}

const noCalls: CallFigures = { calls: 0, failed: 0, longestMs: 0 };

/** Calls of the client library: a task is enqueued, and its result waited for. */
export class LibraryCalls implements AsyncDisposable {
  #figures = noCalls;
  /** When each call that has not ended was made. */
  readonly #open: Set<number> = new Set();
  readonly #clients: readonly Client[];
  readonly #lanes: Promise<unknown>;
  readonly #onFailure: (text: string) => void;
  #isOver = false;
  #onEnd: () => void = () => {};

  constructor(
    cluster: ClusterNodes,
    options: { readonly lanes: number; readonly onFailure: (text: string) => void },
  ) {
    this.#onFailure = options.onFailure;
    const url = nodeIds.map((id) => cluster.url(id));
    this.#clients = (["streams", "http"] as const).map((transport) =>
      codeq({ url, transport, token: "dev-token", onWarning: () => {} }),
    );
    for (const client of this.#clients) {
      client.worker(
        addOne.handle((n) => n + 1),
        // A task that was given to somebody else meanwhile is worked on there.
        { on: { failed: () => {}, refused: () => {} } },
      );
    }
    const lanes = Array.from({ length: options.lanes }, () => this.#clients).flat();
    this.#lanes = Promise.all(lanes.map((client) => this.#call(client)));
  }

  /** The client library over HTTP, for what administrators ask. */
  get client(): Client {
    return this.#clients.at(-1) as Client;
  }

  /** What became of the calls since it was last asked, those included that are under way now. */
  async take(): Promise<CallFigures> {
    const last = Math.max(...this.#open);
    await new Promise<void>((resolve) => {
      this.#onEnd = () => {
        if (Math.min(...this.#open) > last) resolve();
      };
    });
    this.#onEnd = () => {};
    const taken = this.#figures;
    this.#figures = noCalls;
    return taken;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await this.#lanes;
    await Promise.all(this.#clients.map((client) => client.close()));
  }

  async #call(client: Client): Promise<void> {
    while (!this.#isOver) {
      const sentMs = performance.now();
      this.#open.add(sentMs);
      try {
        const run = await client.enqueue(addOne, 1, { timeout: "60s" });
        // Longer than a lease: a task that a leader gave out when it died is given out again when its lease ends.
        await run.result({ timeout: "3m" });
      } catch (error) {
        this.#figures = { ...this.#figures, failed: this.#figures.failed + 1 };
        this.#onFailure(String(error));
      }
      this.#open.delete(sentMs);
      const { calls, failed, longestMs } = this.#figures;
      const tookMs = performance.now() - sentMs;
      this.#figures = { calls: calls + 1, failed, longestMs: Math.max(longestMs, tookMs) };
      this.#onEnd();
    }
  }
}

interface Watched {
  readonly cluster: ClusterNodes;
  /** The nodes that plain requests go to. */
  readonly ids: readonly string[];
  /** Between two plain requests of a lane; as fast as they are answered by default. */
  readonly paceMs?: number;
}

/** What clients see during an action, and until the cluster goes on after it. */
export async function watch(
  { cluster, ids, paceMs = 0 }: Watched,
  action: () => Promise<void>,
): Promise<Seen> {
  const plain = new PlainRequests(cluster, ids, paceMs);
  await plain.more(enough);
  plain.begin();
  await action();
  await plain.more(enough);
  const { pauseMs, refused, latency } = plain;
  await plain.end();
  return {
    pauseMs,
    refused,
    latency: { p50Ms: latency.quantile(0.5), p99Ms: latency.quantile(0.99) },
  };
}
