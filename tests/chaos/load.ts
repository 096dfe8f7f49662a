/**
 * The clients of a campaign: producers that repeat every task until it is acknowledged, and workers that repeat
 * every result until somebody says what became of it. They ask any node, and give up none.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { Ledger } from "./ledger.ts";

export interface LoadOptions {
  readonly ledger: Ledger;
  readonly urls: readonly string[];
  /** Queues with one producer and one worker each. */
  readonly ordered: number;
  /** Queues with several of both. */
  readonly shared: number;
  /** Whether the order of tasks can be seen from outside. */
  readonly isOrderKnown: boolean;
  readonly draw: (below: number) => number;
}

export interface Reply {
  readonly status: number;
  readonly json: unknown;
}

interface ClaimedJson {
  readonly id: string;
  readonly payload: string;
  readonly leaseToken: number;
}

const timeoutMs = 2000;
const leaseSeconds = 10;
const waitSeconds = 1;
const paceMs = 15;
const retryMs = 30;
const sharedWorkers = 3;
const openMax = 20;

export class Load {
  /** Requests that had to be repeated. */
  repeated = 0;
  readonly #options: LoadOptions;
  readonly #producing: Promise<void>;
  readonly #working: Promise<void>;
  #isProducing = true;
  #isWorking = true;
  #isGivenUp = false;

  constructor(options: LoadOptions) {
    this.#options = options;
    const queues = (kind: string, count: number): string[] =>
      Array.from({ length: count }, (_, at) => `${kind}-${at}`);
    const ordered = queues("ordered", options.ordered);
    const shared = queues("shared", options.shared);
    this.#producing = all([...ordered, ...shared].map((queue) => this.#produce(queue)));
    const workers = shared.flatMap((queue) => Array.from({ length: sharedWorkers }, () => queue));
    this.#working = all([
      ...ordered.map((queue) => this.#work(queue, options.isOrderKnown)),
      ...workers.map((queue) => this.#work(queue, false)),
    ]);
  }

  /** The cluster does not come back; nobody waits for it any more. */
  giveUp(): void {
    this.#isGivenUp = true;
  }

  async stopProducing(): Promise<void> {
    this.#isProducing = false;
    await this.#producing;
  }

  async stopWorking(): Promise<void> {
    this.#isWorking = false;
    await this.#working;
  }

  async #produce(queue: string): Promise<void> {
    for (let number = 0; this.#isProducing; number += 1) {
      const body = {
        command: queue,
        payload: { number },
        idempotencyKey: `${queue}/${number}`,
        maxAttempts: 1000,
      };
      const reply = await this.#until("/tasks", body, ({ status }) => status === 202);
      if (reply === undefined) return;
      this.#options.ledger.created(queue, number, (reply.json as { id: string }).id);
      await pause(paceMs);
      // Workers on a slow machine have to be done soon after the last fault.
      while (this.#isProducing && this.#isBehind(queue)) await pause(retryMs);
    }
  }

  #isBehind(queue: string): boolean {
    const { ledger } = this.#options;
    return ledger.openOf(queue) > openMax && !this.#isGivenUp;
  }

  async #work(queue: string, isOrdered: boolean): Promise<void> {
    const { ledger } = this.#options;
    while (this.#isWorking) {
      const reply = await this.#ask("/tasks/claim", {
        commands: [queue],
        leaseSeconds,
        waitSeconds,
      });
      if (reply?.status !== 200) {
        await pause(retryMs);
        continue;
      }
      const { id, payload, leaseToken: lease } = reply.json as ClaimedJson;
      const { number } = JSON.parse(payload) as { number: number };
      ledger.claimed({ queue, number, id, lease, isOrdered });
      const result = { status: "COMPLETED", result: { by: lease }, leaseToken: lease };
      // Nobody else is asked to decide: a refusal says that the lease is over.
      const isDecided = ({ status }: Reply): boolean => status < 429;
      const decided = await this.#until(`/tasks/${id}/result`, result, isDecided);
      if (decided?.status === 200) ledger.completed(id, lease);
    }
  }

  /** Undefined when the load was given up. */
  async #until(
    path: string,
    body: unknown,
    isDone: (reply: Reply) => boolean,
  ): Promise<Reply | undefined> {
    while (!this.#isGivenUp) {
      const reply = await this.#ask(path, body);
      if (reply !== undefined && isDone(reply)) return reply;
      this.repeated += 1;
      await pause(retryMs);
    }
    return undefined;
  }

  #ask(path: string, body: unknown): Promise<Reply | undefined> {
    const { urls, draw } = this.#options;
    return ask(`${urls[draw(urls.length)]}/v1/codeq${path}`, body);
  }
}

/** Undefined when nobody answers, or too late. */
export async function ask(url: string, body?: unknown): Promise<Reply | undefined> {
  try {
    const response = await fetch(url, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: "Bearer dev-token", "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    return { status: response.status, json: isJson ? JSON.parse(text) : text };
  } catch {
    // Refused, cut off or late: all the same to a client.
    return undefined;
  }
}

async function all(lanes: readonly Promise<void>[]): Promise<void> {
  await Promise.all(lanes);
}
