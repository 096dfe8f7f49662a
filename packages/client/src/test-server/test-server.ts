/**
 * A real server inside a test: the engine, the rules and the streams of production, in memory and on
 * a clock that stands still until the test moves it. Clients of it need no port and never wait for
 * real time.
 */
import { AssertionError } from "node:assert";
import { type InProcessServer, openInProcess } from "@codeq/server";
import { SimClock, SimRandom } from "@codeq/server/simulated";
import type { AdminTask } from "../api-types.ts";
import { Client, type ClientOptions } from "../client.ts";
import { type Clock, systemClock } from "../clock.ts";
import { CodeqError } from "../codeq-error.ts";
import type { SessionListener } from "../connection/session.ts";
import type { Transports } from "../connection/transports.ts";
import { type Duration, inWords, toMs } from "../duration.ts";
import type { StreamMethod } from "../grpc/grpc-session.ts";
import { HttpApi } from "../http/http-api.ts";
import { producerMethod } from "../producer/producer.ts";
import type { Listen, Runtime } from "../runtime.ts";
import type { Schedules } from "../schedules/schedules.ts";
import type { TaskType } from "../task.ts";
import { TaskWorker, workerMethod } from "../worker/worker.ts";
import type { Worker } from "../worker/worker-options.ts";
import { MemoryLink } from "./memory-link.ts";

/** A server for one test, if it is to differ from one with defaults. */
export interface TestServerOptions {
  /** Keys of the server's configuration, as environment variables: `{ MAX_ATTEMPTS_DEFAULT: "2" }`. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** How many shards the server has. Default: 1. */
  readonly shards?: number | undefined;
  /** What the clock shows at first. */
  readonly startAt?: Date | number | undefined;
  /** Decides everything that is left to chance, such as the jitter of retries. */
  readonly seed?: number | undefined;
}

/** How many tasks of one name are where. */
export interface TaskCounts {
  readonly ready: number;
  readonly delayed: number;
  /** With a worker. */
  readonly leased: number;
  /** Dead letters. */
  readonly dead: number;
}

/** A result that the server would have posted to a webhook. */
export interface PostedWebhook {
  readonly url: string;
  readonly taskId: string;
  readonly status: "COMPLETED" | "FAILED";
}

/** A task as it was enqueued. */
export interface EnqueuedTask<Input> {
  readonly id: string;
  readonly input: Input;
  readonly priority: number;
  readonly tags: readonly string[];
  /** When it may begin, while it is delayed. */
  readonly runAt: Date | undefined;
  readonly status: AdminTask["status"];
}

/** How far `runUntilIdle` may go. */
export interface IdleOptions {
  /** How far the clock may move. Default: `"1d"`. */
  readonly within?: Duration | undefined;
}

/** What the server answers and a test may lose on the way. */
export type LosableResponse = "enqueue" | "result" | "heartbeat" | "retry" | "hand_back";

/**
 * Starts a server for one test.
 *
 * ```ts
 * await using server = await testServer();
 * server.client.worker(greet.handle(({ name }) => ({ text: `hello ${name}` })));
 * const run = await server.client.enqueue(greet, { name: "Ada" }, { delay: "1h" });
 * await server.advance("1h");
 * assert.deepEqual(await run.result(), { text: "hello Ada" });
 * ```
 */
export async function testServer(options: TestServerOptions = {}): Promise<TestServer> {
  const world = new World(options);
  const { env = {}, shards } = options;
  const server = await world.open({
    ...env,
    ...(shards === undefined ? {} : { CODEQ_SHARDS: String(shards) }),
  });
  return new TestServer(world, server);
}

/** Made by `testServer`. */
export class TestServer implements AsyncDisposable {
  readonly #world: World;
  readonly #server: InProcessServer;
  readonly #clients: Client[] = [];
  readonly #workers = new Set<TaskWorker>();
  /** A client of this server. */
  readonly client: Client;

  /** @internal Use `testServer`. */
  constructor(world: World, server: InProcessServer) {
    this.#world = world;
    this.#server = server;
    this.client = this.newClient();
  }

  /** The schedules of the server: `advance("365d")` fires a year of them. */
  get schedules(): Schedules {
    return this.client.schedules;
  }

  /** What the clock shows. */
  get now(): Date {
    return new Date(this.#world.clock.nowMs());
  }

  /** What would have been posted to webhooks, in order. */
  get webhooks(): readonly PostedWebhook[] {
    return this.#world.webhooks;
  }

  /** Another client, as another process would have it. */
  newClient(options: Pick<ClientOptions, "token" | "tracing" | "onWarning"> = {}): Client {
    const { runtime } = this.#world;
    const client = new Client(options, runtime, this.#transports());
    const start = client.worker.bind(client);
    client.worker = (...args) => this.#started(start(...args));
    this.#clients.push(client);
    return client;
  }

  /** How many tasks of this name are where. */
  counts(task: string | { readonly name: string }): TaskCounts {
    const name = (typeof task === "string" ? task : task.name).toLowerCase();
    return this.#server.counts().get(name) ?? { ready: 0, delayed: 0, leased: 0, dead: 0 };
  }

  /**
   * The tasks of this name that were enqueued, oldest first, whatever has become of them.
   *
   * ```ts
   * const [task] = await server.enqueued(greet);
   * assert.deepEqual(task?.input, { name: "Ada" });
   * ```
   */
  async enqueued<Input>(task: TaskType<Input, unknown>): Promise<EnqueuedTask<Input>[]> {
    const { admin } = this.client;
    const found: EnqueuedTask<Input>[] = [];
    for await (const each of admin.tasks({ command: task.name }, { order: "oldest" })) {
      // Lists leave out long payloads.
      const stored = each.payload ?? (await admin.task(each.id)).task.payload ?? "null";
      const { codec } = task.definition;
      const payload = codec === undefined ? stored : await codec.decode(stored);
      found.push({
        id: each.id,
        input: JSON.parse(payload),
        priority: each.priority ?? 0,
        tags: each.tags ?? [],
        runAt: each.runAt === undefined ? undefined : new Date(each.runAt),
        status: each.status,
      });
    }
    return found;
  }

  /**
   * Fails the test unless a task of this name was enqueued whose input has what is given here; fields that are not
   * named may have any value. Gives the oldest task that matches.
   *
   * ```ts
   * await server.expectEnqueued(greet, { name: "Ada" });
   * ```
   */
  async expectEnqueued<Input>(
    task: TaskType<Input, unknown>,
    input: PartOf<NoInfer<Input>>,
  ): Promise<EnqueuedTask<Input>> {
    const all = await this.enqueued(task);
    const found = all.find((each) => isPartOf(each.input, input));
    if (found !== undefined) return found;
    const many = all.length === 1 ? "1 task is" : `${all.length} tasks are`;
    const message = `no task ${task.name} was enqueued with this input; ${many} there`;
    const actual = all.map((each) => each.input);
    throw new AssertionError({ message, actual, expected: [input], operator: "expectEnqueued" });
  }

  /** Lets time pass, with everything that becomes due on the way. */
  async advance(duration: Duration): Promise<void> {
    await this.#world.clock.advance(toMs(duration, "duration"));
  }

  /**
   * Lets the workers work until no task is left for them: time moves on to retries, delayed tasks and
   * the ends of leases as they come. Tasks that are due later than `within` are left alone. Rejects
   * when tasks are left that no worker takes.
   */
  async runUntilIdle({ within = "1d" }: IdleOptions = {}): Promise<void> {
    const { clock } = this.#world;
    const withinMs = toMs(within, "within");
    const endMs = clock.monotonicMs() + withinMs;
    let waitedFor = -1;
    for (;;) {
      await clock.advance(0);
      if (this.#isIdle()) return;
      // A handler may do real I/O; one that does none for a while is waiting for the clock.
      if (this.#busy > 0 && waitedFor !== this.#turnover) {
        if (await this.#world.happened()) continue;
        waitedFor = this.#turnover;
      }
      const nextMs = clock.nextTimerMs;
      if (nextMs === undefined || clock.monotonicMs() + nextMs > endMs) {
        this.#checkLeft(withinMs);
        return;
      }
      await clock.advance(nextMs);
    }
  }

  /**
   * Ends a worker as a crash of its process would: the server hears nothing, and its tasks go to
   * others when their leases end. Without an argument it is the one that was started last.
   */
  crashWorker(worker: Worker | undefined = [...this.#workers].at(-1)): void {
    if (!(worker instanceof TaskWorker) || !this.#workers.has(worker)) {
      throw new CodeqError("invalid_option", "no such worker runs on this server");
    }
    this.#workers.delete(worker);
    worker.crash();
  }

  /**
   * The next answer of this kind does not arrive, and the connection breaks: what was asked was done,
   * but the client cannot know.
   */
  loseResponse(to: LosableResponse = "enqueue"): void {
    this.#world.losing.push(to);
  }

  async close(): Promise<void> {
    for (const worker of this.#workers) worker.crash();
    for (const client of this.#clients) client.cut();
    await this.#world.settle();
    await this.#server[Symbol.asyncDispose]();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #transports(): Transports {
    return {
      api: new HttpApi({
        url: new URL("http://test-server"),
        clock: this.#world.runtime.clock,
        fetch: (input, init) => this.#server.fetch(String(input), init),
      }),
      producer: (_options, listener) => Promise.resolve(this.#link(producerMethod, listener)),
      worker: () => (_options, listener) => Promise.resolve(this.#link(workerMethod, listener)),
    };
  }

  #link<Event, Reply extends { readonly case: unknown }>(
    method: StreamMethod<Event, Reply>,
    listener: SessionListener<Reply>,
  ): MemoryLink<Event, Reply> {
    const { carry, isLost } = this.#world;
    return new MemoryLink({ server: this.#server, method, listener, carry, isLost });
  }

  #started(worker: Worker): Worker {
    if (!(worker instanceof TaskWorker)) return worker;
    this.#workers.add(worker);
    const forget = (): void => void this.#workers.delete(worker);
    worker.done.then(forget, forget);
    return worker;
  }

  get #busy(): number {
    return [...this.#workers].reduce((sum, worker) => sum + worker.busy, 0);
  }

  get #turnover(): number {
    return [...this.#workers].reduce((sum, worker) => sum + worker.turnover, 0);
  }

  #isIdle(): boolean {
    if (this.#busy > 0) return false;
    const left = [...this.#server.counts().values()];
    return left.every(({ ready, delayed, leased }) => ready + delayed + leased === 0);
  }

  #checkLeft(withinMs: number): void {
    const left = [...this.#server.counts()].filter(([, { ready, leased }]) => ready + leased > 0);
    if (left.length === 0) return;
    const shown = left.map(
      ([name, { ready, leased }]) => `${name}: ${ready} ready, ${leased} leased`,
    );
    const text = `after ${inWords(withinMs)} unfinished tasks have no worker (${shown.join("; ")})`;
    throw new CodeqError("timeout", `${text}; start a worker with server.client.worker(...)`);
  }
}

/** Any part of an input. */
export type PartOf<Input> = Input extends object
  ? { readonly [Key in keyof Input]?: PartOf<Input[Key]> }
  : Input;

function isPartOf(actual: unknown, expected: unknown): boolean {
  const isValue = typeof expected !== "object" || expected === null;
  if (isValue || typeof actual !== "object" || actual === null) return Object.is(actual, expected);
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length) return false;
  }
  const of = actual as Readonly<Record<string, unknown>>;
  return Object.entries(expected).every(([key, value]) => isPartOf(of[key], value));
}

/** Turns in which nothing happens before everything counts as settled. */
const quietTurns = 4;
/** How long a handler may do something real before time moves on. */
const patienceMs = 100;

/** Which replies a lost response is. */
const replies: Readonly<Record<LosableResponse, readonly string[]>> = {
  enqueue: ["createAck", "createAckBatch"],
  result: ["resultAck", "resultAckBatch"],
  heartbeat: ["heartbeatAck"],
  retry: ["nackAck"],
  hand_back: ["abandonAck"],
};

/** Everything around the server and its clients: time, chance and the ways between them. */
class World {
  readonly clock: SimClock;
  readonly runtime: Runtime;
  readonly webhooks: PostedWebhook[] = [];
  readonly losing: LosableResponse[] = [];
  readonly #random: SimRandom;
  /** By port. */
  readonly #listening: Map<number, Parameters<Listen>[1]> = new Map();
  /** Grows with everything that happens. */
  #happenings = 0;
  #onHappening: () => void = () => {};
  #lastId = 0;

  constructor({ startAt, seed = 1 }: TestServerOptions) {
    this.#random = new SimRandom(seed);
    this.clock = new SimClock({
      ...(startAt === undefined ? {} : { wallMs: Number(startAt) }),
      settle: () => this.settle(),
    });
    this.runtime = {
      clock: this.#clientClock(),
      uniqueId: () => {
        this.#lastId += 1;
        return `test${this.#lastId}`;
      },
      defer: (run) => this.carry(run),
      // Between tries of a client no time passes; a server in the same process is always there.
      pauseMs: () => 0,
      fetch: () => Promise.reject(new Error("a test server has no HTTP address")),
      listen: async ({ port }, receive) => {
        this.#listening.set(port, receive);
        return { close: async () => void this.#listening.delete(port) };
      },
      onSignal: () => () => {},
      warn: (code, message) => process.emitWarning(message, { type: "CodeqWarning", code }),
    };
  }

  open(env: Readonly<Record<string, string>>): Promise<InProcessServer> {
    return openInProcess({
      env,
      clock: this.clock,
      randomBytes: (into) => this.#random.bytes(into),
      draw: () => this.#random.next(),
      defer: (run) => this.carry(run),
      post: (task, { status }) => {
        this.webhooks.push({ url: task.webhook, taskId: task.id, status });
        return Promise.resolve(200);
      },
      notify: (url, body) => this.#notify(url, body),
      log: () => {},
    });
  }

  /** Calls the listener on the port of the URL, if there is one. */
  async #notify(url: string, body: string): Promise<number | undefined> {
    const receive = this.#listening.get(Number(new URL(url).port));
    this.#happenings += 1;
    return receive?.({ body, headers: {} });
  }

  readonly carry = (run: () => void): void => {
    setImmediate(() => {
      this.#happenings += 1;
      run();
      this.#onHappening();
    });
  };

  readonly isLost = (reply: { readonly case: unknown }): boolean => {
    const at = this.losing.findIndex((each) => replies[each].includes(String(reply.case)));
    if (at >= 0) this.losing.splice(at, 1);
    return at >= 0;
  };

  /** Lets everything happen that needs neither time nor anything outside. */
  async settle(): Promise<void> {
    for (let quiet = 0, seen = this.#happenings; quiet < quietTurns; quiet += 1) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (this.#happenings !== seen) quiet = 0;
      seen = this.#happenings;
    }
  }

  /** Whether something happens within the time that a handler may need for something real. */
  happened(): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = systemClock.after(patienceMs, () => resolve(false));
      this.#onHappening = () => {
        cancel();
        resolve(true);
      };
    });
  }

  /** What is to happen at once needs no move of the clock. */
  #clientClock(): Clock {
    const { clock } = this;
    return {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs(),
      after: (delayMs, run) => {
        if (delayMs > 0) return clock.after(delayMs, run);
        let isCancelled = false;
        this.carry(() => {
          if (!isCancelled) run();
        });
        return () => {
          isCancelled = true;
        };
      },
    };
  }
}
