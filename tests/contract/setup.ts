/**
 * A whole server in this process: the composition of `main` with a clock that moves when it is told
 * to. A `World` is what outlives a server: the time and the stored bytes.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { LocalLog, MemoryKv, MemoryLog } from "@codeq/engine";
import { SimClock, SimDisk, SimRandom, settle } from "@codeq/simulated";
import { loadConfig } from "../../packages/server/src/config/load.ts";
import type { Config } from "../../packages/server/src/config/settings.ts";
import type { Broker } from "../../packages/server/src/core/broker/broker.ts";
import type { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { Clock } from "../../packages/server/src/core/clock.ts";
import { createPost } from "../../packages/server/src/core/outbound/post.ts";
import { Router } from "../../packages/server/src/core/shards/router.ts";
import {
  createPostWebhook,
  type PostWebhook,
} from "../../packages/server/src/core/sweeps/deliver-webhooks.ts";
import { Timestamps } from "../../packages/server/src/core/timestamps.ts";
import { type FetchKeySet, fetchKeySet } from "../../packages/server/src/edge/access/key-set.ts";
import { newEndpoints } from "../../packages/server/src/edge/http/health.ts";
import {
  type ArtifactProvider,
  MemoryArtifacts,
} from "../../packages/server/src/features/artifacts/artifact-provider.ts";
import { LocalArtifacts } from "../../packages/server/src/features/artifacts/local-artifacts.ts";
import {
  createPostNotification,
  type PostNotification,
} from "../../packages/server/src/features/subscriptions/notify-subscribers.ts";
import { type Core, composeCore, composeHttp } from "../../packages/server/src/start/compose.ts";
import { openDataDir, type Storage } from "../../packages/server/src/start/open-data-dir.ts";
import { openLocalShards } from "../../packages/server/src/start/shards/open-local-shards.ts";
import { createLogger, type Logger } from "../../packages/server/src/telemetry/logger.ts";
import { createMetrics, type Metrics } from "../../packages/server/src/telemetry/metrics.ts";
import { engineOf } from "../../packages/server/test/engine-of.ts";
import { keepLog } from "../test-results.ts";
import { assertDocumented } from "./api-document.ts";
import { type Caller, producerTokens, workerTokens } from "./tokens.ts";

export interface Options {
  readonly settings?: Partial<Config>;
  /** `memory` unless told; `files` are the real ones; `sim-disk` can lose power and run full. */
  readonly storage?: "memory" | "files" | "sim-disk";
  readonly seed?: number;
  /** The real one unless told. */
  readonly post?: PostWebhook;
  readonly notify?: PostNotification;
  readonly fetchKeySet?: FetchKeySet;
  /** The directory that the settings name, or memory unless told. */
  readonly artifacts?: ArtifactProvider;
}

/** 2026-01-02T03:04:05.120Z: the fraction has a zero to trim. */
export const startMs: number = Date.UTC(2026, 0, 2, 3, 4, 5, 120);

/** Counts the timers that run, so that a test can say that none did. */
export class CountingClock extends SimClock {
  fired = 0;

  override after(delayMs: number, run: () => void): () => void {
    return super.after(delayMs, () => {
      this.fired += 1;
      run();
    });
  }
}

/** With CODEQ_TEST_SHARDS=3 the same tests run on a server with three shards. */
const shards: number = Number(process.env["CODEQ_TEST_SHARDS"] ?? 1);

/** Options of tests that mean one shard, with the reason. */
export const onlyWith = {
  broker: oneShard("it looks into the only broker"),
  disk: oneShard("it makes the only disk slow or full"),
  order: oneShard("there is one order of all tasks with one shard only"),
  health: oneShard("with several shards the page tells how each of them is"),
  shards: oneShard("it says how many there are"),
  series: oneShard("each shard bounds its own series"),
  timers: oneShard("each shard has timers of its own"),
  race: oneShard("the messages between router and shard decide which of the two comes first"),
  spelling: oneShard("each shard has its own last spelling of a command"),
  webhooks: oneShard("each shard bounds its own webhooks"),
  queues: oneShard("each shard counts its own queues"),
} as const;

function oneShard(reason: string): { readonly skip: string | false } {
  return { skip: shards === 1 ? false : reason };
}

interface StoreFiles {
  readonly contents: Map<string, Buffer>;
  disk: SimDisk;
  log: MemoryLog;
}

export class World {
  readonly clock: CountingClock = new CountingClock({
    wallMs: startMs,
    // A question to all shards and its answers take turns of their own.
    ...(shards === 1 ? {} : { settle: () => settle(12) }),
  });
  readonly random: SimRandom;
  /** Of the only store, or of the one for what is no task; then of the shards. */
  readonly #stores: StoreFiles[] = [];
  readonly #options: Options;
  readonly #artifacts: MemoryArtifacts = new MemoryArtifacts();
  readonly #started: RunningServer[] = [];
  directory = "";
  /** Grows when a process ends; what an earlier one left behind does nothing any more. */
  life = 1;

  constructor(options: Options = {}) {
    this.#options = options;
    this.random = new SimRandom(options.seed ?? 1);
    for (let store = 0; store <= Math.max(shards, options.settings?.shards ?? 1); store += 1) {
      this.#stores.push({
        contents: new Map(),
        disk: new SimDisk({ random: () => this.random.next() }),
        log: new MemoryLog({ writer: 1, epoch: 1, shard: 0 }),
      });
    }
  }

  /** Of the only store, or of the one for what is no task. */
  get disk(): SimDisk {
    return this.#files(0).disk;
  }

  #files(store: number): StoreFiles {
    return this.#stores[store] as StoreFiles;
  }

  async start(settings: Partial<Config> = {}): Promise<RunningServer> {
    const config = { ...this.#config(), ...this.#options.settings, ...settings };
    const clock = this.#clockOfLife();
    const lines: string[] = [];
    const logger = createLogger({
      level: "debug",
      format: "json",
      nowMs: () => clock.nowMs(),
      write: (line) => lines.push(line),
    });
    const metrics = createMetrics({ commandsMax: config.metricsCommandsMax });
    const timestamps = new Timestamps(config.timezone);
    const post = createPost({ config, clock });
    const core = await composeCore({
      config,
      clock,
      logger,
      metrics,
      storage: await this.#storage({ config, metrics, logger, store: 0 }),
      openShards: (_known, parts) => {
        const openStorage = (shard: number): Promise<Storage> =>
          this.#storage({ config, metrics, logger, store: 1 + shard });
        return openLocalShards({ ...parts, openStorage });
      },
      randomBytes: (into) => this.random.bytes(into),
      draw: () => this.random.next(),
      post: this.#options.post ?? createPostWebhook({ post, timestamps }),
      notify: this.#options.notify ?? createPostNotification({ post, clock }),
      fetchKeySet: this.#options.fetchKeySet ?? fetchKeySet,
      artifacts: this.#options.artifacts ?? this.#artifactsOf(config),
      // A shard says that it is there before its router listens, unless that takes a turn.
      defer: config.shards === 1 ? (run) => queueMicrotask(run) : (run) => setImmediate(run),
      onFailed: () => {},
    });
    const endpoints = newEndpoints("test");
    const app = composeHttp({ core, config, logger, metrics, timestamps, clock, endpoints });
    const server = new RunningServer({ world: this, core, app, config, metrics, lines });
    this.#started.push(server);
    return server;
  }

  /** Stops whatever was started and still runs. */
  async stop(): Promise<void> {
    for (const server of this.#started) await server.stop();
  }

  /** Ends the process, or takes the power away; the next start finds what the disk kept. */
  crash(mode: "process" | "power"): void {
    this.life += 1;
    for (const files of this.#stores) files.disk = files.disk.crash(mode);
  }

  #clockOfLife(): Clock {
    const { clock, life } = this;
    return {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => clock.monotonicMs(),
      after: (delayMs, run) =>
        clock.after(delayMs, () => {
          if (life === this.life) run();
        }),
    };
  }

  /** Tests that look at files name a directory. */
  #artifactsOf(config: Config): ArtifactProvider {
    const isNamed = this.#options.settings?.localArtifactsDir !== undefined;
    return isNamed ? new LocalArtifacts(config) : this.#artifacts;
  }

  #config(): Config {
    const loaded = loadConfig({
      argv: [],
      env: {
        CODEQ_SHARDS: String(shards),
        PRODUCER_AUTH_CONFIG: JSON.stringify(producerTokens),
        WORKER_AUTH_CONFIG: JSON.stringify(workerTokens),
        CODEQ_DATA_DIR: this.directory || "unused",
        // As a server that other machines reach.
        CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "false",
        // An idle server plans nothing.
        CODEQ_ARTIFACT_SWEEP_SECONDS: "0",
      },
      readFile: () => "",
    });
    if (!loaded.ok) throw new Error(loaded.problems.join("\n"));
    return loaded.config;
  }

  async #storage(parts: {
    readonly config: Config;
    readonly metrics: Metrics;
    readonly logger: Logger;
    readonly store: number;
  }): Promise<Storage> {
    const { config, metrics, logger, store } = parts;
    const { clock } = this;
    const files = this.#files(store);
    const { contents, disk } = files;
    if (this.#options.storage === "files") {
      const dataDir = store === 0 ? config.dataDir : join(config.dataDir, `shard-${store - 1}`);
      return openDataDir({ ...config, dataDir }, { clock, metrics, logger });
    }
    const { life } = this;
    const beforeWrite = (): Promise<void> =>
      life === this.life ? Promise.resolve() : new Promise(() => {});
    const kv = new MemoryKv({ contents, beforeWrite });
    if (this.#options.storage === "sim-disk") {
      const log = await LocalLog.open(disk, {
        durability: config.durability,
        writer: 1,
        epoch: 1,
        shard: 0,
        segmentBytes: 64 * 1024,
        monotonicMs: () => clock.monotonicMs(),
      });
      return { kv, log, freeBytes: () => disk.freeBytes() };
    }
    files.log = files.log.reopen();
    return { kv, log: files.log, freeBytes: () => Promise.resolve(Number.MAX_SAFE_INTEGER) };
  }
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly text: string;
  /** The parsed body. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  readonly json: any;
}

export interface Ask {
  readonly method?: string;
  readonly caller?: Caller;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text and bytes go as they are, anything else as JSON. */
  readonly body?: unknown;
}

const base = "/v1/codeq";

type HttpServer = ReturnType<typeof composeHttp>;

export class RunningServer {
  readonly world: World;
  readonly core: Core;
  readonly app: HttpServer;
  readonly config: Config;
  readonly metrics: Metrics;
  /** What the server has logged. */
  readonly lines: string[];
  readonly #life: number;
  #isStopped = false;

  constructor(parts: {
    world: World;
    core: Core;
    app: HttpServer;
    config: Config;
    metrics: Metrics;
    lines: string[];
  }) {
    this.world = parts.world;
    this.core = parts.core;
    this.app = parts.app;
    this.config = parts.config;
    this.metrics = parts.metrics;
    this.lines = parts.lines;
    this.#life = parts.world.life;
  }

  get clock(): CountingClock {
    return this.world.clock;
  }

  /** A request to any path. */
  /** By a path or by a URL of this server. */
  async ask(
    pathOrUrl: string,
    { method = "GET", caller, headers = {}, body }: Ask,
  ): Promise<Reply> {
    const path = pathOrUrl.replace(/^https?:\/\/[^/]+/, "");
    const authorization = caller === undefined ? {} : { authorization: `Bearer ${caller}` };
    const isRaw = typeof body === "string" || Buffer.isBuffer(body) || body === undefined;
    const payload = body === undefined || isRaw ? (body as string | Buffer) : JSON.stringify(body);
    const reply = await this.app.inject({
      method: method as "GET",
      url: path,
      headers: { ...authorization, ...headers },
      ...(payload === undefined ? {} : { payload }),
    });
    const received = reply.headers as Record<string, string | undefined>;
    const { statusCode: status, body: text } = reply;
    assertDocumented({ method, url: path, status, headers: received, text });
    return {
      status,
      headers: received,
      text,
      get json() {
        return JSON.parse(text);
      },
    };
  }

  /** The same, and ends the feed that it may open, as there would be no answer without. */
  async askToEnd(path: string, ask: Ask): Promise<Reply> {
    let isAnswered = false;
    const answered = this.ask(path, ask).finally(() => {
      isAnswered = true;
    });
    await until(() => isAnswered || this.core.feed.isHeard);
    this.core.feed.endAll("shutting_down");
    return answered;
  }

  get(path: string, caller: Caller = "producer-acme"): Promise<Reply> {
    return this.ask(base + path, { caller });
  }

  post(path: string, body: unknown, caller: Caller): Promise<Reply> {
    return this.ask(base + path, { method: "POST", caller, body });
  }

  /** Creates a task and gives its id. */
  async create(fields: object = {}, caller: Caller = "producer-acme"): Promise<string> {
    const reply = await this.post("/tasks", { command: "render", payload: {}, ...fields }, caller);
    assert.equal(reply.status, 202, reply.text);
    return reply.json.id;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the task as it is on the wire.
  async claim(body: object = {}, caller: Caller = "worker-acme"): Promise<any> {
    const reply = await this.post("/tasks/claim", body, caller);
    assert.ok(reply.status === 200 || reply.status === 204, reply.text);
    return reply.status === 204 ? undefined : reply.json;
  }

  /** Creates a task, claims it and gives its id. */
  async leased(
    fields: { readonly command?: string; readonly [name: string]: unknown } = {},
    caller: Caller = "worker-acme",
  ): Promise<string> {
    const producer = caller === "worker-globex" ? "producer-globex" : "producer-acme";
    const id = await this.create(fields, producer);
    const claimed = await this.claim({ commands: [fields.command ?? "render"] }, caller);
    assert.equal(claimed?.id, id);
    return id;
  }

  complete(id: string, caller: Caller = "worker-acme"): Promise<Reply> {
    return this.post(`/tasks/${id}/result`, { status: "COMPLETED", result: { ok: 1 } }, caller);
  }

  /** Uses up the only attempt of a new task and gives its id. */
  async buried(fields: object = {}): Promise<string> {
    const id = await this.leased({ maxAttempts: 1, ...fields });
    const nacked = await this.post(`/tasks/${id}/nack`, { reason: "broken" }, "worker-acme");
    assert.equal(nacked.text, '{"status":"dlq","delaySeconds":0}');
    return id;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the task as it is on the wire.
  async task(id: string, caller: Caller = "producer-acme"): Promise<any> {
    const reply = await this.get(`/tasks/${id}`, caller);
    assert.equal(reply.status, 200, reply.text);
    return reply.json;
  }

  // biome-ignore lint/suspicious/noExplicitAny: the counts as they are on the wire.
  async stats(command = "render", caller: Caller = "admin-acme"): Promise<any> {
    return (await this.get(`/admin/queues/${command}`, caller)).json;
  }

  /** The value of a time series; 0 when it is not there. */
  async metric(series: string): Promise<number> {
    const { text } = await this.ask("/metrics", {});
    const line = text.split("\n").find((each) => each.startsWith(`${series} `));
    return line === undefined ? 0 : Number(line.slice(series.length + 1));
  }

  /** Every key and value that the server would still have after a restart. */
  async dump(): Promise<Map<string, string>> {
    const entries = await engineOf(this.core.store).scan({ after: "", before: "~" }, 1_000_000);
    return new Map(entries.map(([key, value]) => [key, value.toString("latin1")]));
  }

  /** A short name for the whole store, to compare. */
  async fingerprint(): Promise<string> {
    const hash = createHash("sha256");
    for (const [key, value] of await this.dump()) hash.update(`${key}\n${value}\n`);
    return hash.digest("hex");
  }

  /** Resolves when this many claims, or readers of results, wait. */
  async untilWaiting(count: number, kind: "claims" | "results" = "claims"): Promise<void> {
    const { broker } = this.core;
    await until(() => waitingAt(broker, kind) === count);
  }

  async stop(): Promise<void> {
    // A process that crashed is not there to be stopped.
    if (this.#isStopped || this.#life !== this.world.life) return;
    this.#isStopped = true;
    this.core.broker.stopWaiting();
    await this.app.close();
    await this.core[Symbol.asyncDispose]();
  }

  /** Stops, and starts again on what is stored. */
  async restart(settings: Partial<Config> = {}): Promise<RunningServer> {
    await this.stop();
    return this.world.start({ ...this.config, ...settings });
  }
}

function waitingAt(broker: Broker, kind: "claims" | "results"): number {
  if (broker instanceof Router) {
    return kind === "claims" ? broker.waitingClaims : broker.waitingResults;
  }
  const { claims, results } = broker as ShardBroker;
  return kind === "claims" ? claims.waiting.size : results.size;
}

/** A server of its own for one test. */
export async function setup(t: TestContext, options: Options = {}): Promise<RunningServer> {
  const world = new World(options);
  if (options.storage === "files") {
    world.directory = await mkdtemp(join(tmpdir(), "codeq-contract-"));
    // What a test does afterwards comes in the order in which it was said.
    t.after(async () => {
      await world.stop();
      await rm(world.directory, { recursive: true, force: true });
    });
  }
  const server = await world.start();
  t.after(() => {
    keepLog(t, server.lines);
    return server.stop();
  });
  return server;
}

/** Far more than any answer of the network takes; only a failing test gets there. */
const turnsMax = 1_000_000;

/** Lets the event loop turn until the condition holds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < turnsMax; turn += 1) {
    if (await holds()) return;
    await settle(1);
  }
  assert.fail("what was waited for did not happen");
}
