/**
 * The server inside another process, without files and without ports: composed like `main`, with a clock and
 * a random source that are passed in. The test kit of the client library uses it.
 */
import type { Result, Task } from "@codeq/queue";
import { loadConfig } from "../config/load.ts";
import type { Config } from "../config/settings.ts";
import type { ShardBroker } from "../core/broker/shard-broker.ts";
import type { Clock } from "../core/clock.ts";
import type { RandomBytes } from "../core/task-ids.ts";
import { Timestamps } from "../core/timestamps.ts";
import type { GrpcStream } from "../edge/grpc/grpc-stream.ts";
import { type Endpoints, newEndpoints } from "../edge/http/health.ts";
import { MemoryArtifacts } from "../features/artifacts/artifact-provider.ts";
import { notificationBody } from "../features/subscriptions/notify-subscribers.ts";
import type { Streams } from "../features/tasks/streams/streams.ts";
import { createLogger } from "../telemetry/logger.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { type Core, composeCore, composeHttp, composeStreams } from "./compose.ts";
import { type Listening, listenAll } from "./listen.ts";
import { openDataDir } from "./open-data-dir.ts";

export interface InProcessOptions {
  /** Its wall clock is never set. */
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  /** Uniform in [0, 1). */
  readonly draw: () => number;
  /** Runs a function after what arrived in the same turn. */
  readonly defer: (run: () => void) => void;
  /** Keys of the configuration, as environment variables. */
  readonly env: Readonly<Record<string, string>>;
  /** Takes the place of posting results to webhooks. */
  readonly post: (task: Task, result: Result) => Promise<number | undefined>;
  /** Takes the place of telling subscribers. */
  readonly notify: (url: string, body: string) => Promise<number | undefined>;
  /** Gets lines of the log. */
  readonly log: (line: string) => void;
}

export interface InProcessCounts {
  readonly ready: number;
  readonly delayed: number;
  readonly leased: number;
  readonly dead: number;
}

type Http = ReturnType<typeof composeHttp>;

export class InProcessServer implements AsyncDisposable {
  readonly #core: Core;
  readonly #streams: Streams;
  /** The brokers of all shards. */
  readonly #brokers: readonly ShardBroker[];
  readonly #openHttp: () => Http;
  readonly #config: Config;
  readonly #endpoints: Endpoints;
  /** Created at the first request. */
  #http: Http | undefined;

  constructor(parts: {
    readonly core: Core;
    readonly streams: Streams;
    readonly brokers: readonly ShardBroker[];
    readonly openHttp: () => Http;
    readonly config: Config;
    readonly endpoints: Endpoints;
  }) {
    this.#core = parts.core;
    this.#streams = parts.streams;
    this.#brokers = parts.brokers;
    this.#openHttp = parts.openHttp;
    this.#config = parts.config;
    this.#endpoints = parts.endpoints;
  }

  /** Answers a gRPC call that did not come over a port. */
  serve(stream: GrpcStream): void {
    const handler = this.#streams.methods.get(stream.path);
    if (handler === undefined) stream.end("UNIMPLEMENTED", `unknown path ${stream.path}`);
    else handler(stream);
  }

  /** Answers a request to the HTTP API, which has no port either. */
  async fetch(url: string, init: RequestInit = {}): Promise<Response> {
    const { method = "GET", headers, body, signal } = init;
    this.#http ??= this.#openHttp();
    const { pathname, search } = new URL(url);
    const reply = await this.#http.inject({
      method: method as "GET",
      url: pathname + search,
      headers: Object.fromEntries(new Headers(headers)),
      ...(body === undefined || body === null ? {} : { payload: await payloadOf(body) }),
      ...(signal === undefined || signal === null ? {} : { signal }),
    });
    const isEmpty = reply.statusCode === 204;
    return new Response(isEmpty ? null : new Uint8Array(reply.rawPayload), {
      status: reply.statusCode,
      headers: codeOf(reply.headers["codeq-error"]),
    });
  }

  /** Opens the ports of its configuration, for clients in other processes. */
  async listen(): Promise<Listening> {
    this.#http ??= this.#openHttp();
    const parts = { http: this.#http, streams: this.#streams, endpoints: this.#endpoints };
    return await listenAll(parts, this.#config);
  }

  /** How many tasks are where, for every queue, by its name. */
  counts(): ReadonlyMap<string, InProcessCounts> {
    const found = new Map<string, InProcessCounts>();
    for (const { name, counts } of this.#brokers.flatMap(({ queues }) => [...queues.all()])) {
      const before = found.get(name) ?? { ready: 0, delayed: 0, leased: 0, dead: 0 };
      found.set(name, {
        ready: before.ready + counts.ready.reduce((sum, count) => sum + count, 0),
        delayed: before.delayed + counts.delayed,
        leased: before.leased + counts.leased,
        dead: before.dead + counts.dead,
      });
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http?.close();
    await this.#core[Symbol.asyncDispose]();
  }
}

export async function openInProcess(options: InProcessOptions): Promise<InProcessServer> {
  const { clock, defer } = options;
  const config = readConfig(options.env);
  const metrics = createMetrics({ commandsMax: config.metricsCommandsMax });
  const logger = createLogger({
    level: config.logLevel,
    format: config.logFormat,
    write: options.log,
    nowMs: () => clock.nowMs(),
  });
  const parts = { config, clock, logger, metrics };
  const brokers: ShardBroker[] = [];
  const core = await composeCore({
    ...parts,
    onBroker: (broker) => void brokers.push(broker),
    defer,
    storage: await openDataDir(config, { clock, metrics, logger }),
    randomBytes: options.randomBytes,
    draw: options.draw,
    post: options.post,
    notify: (work) => options.notify(work.url, notificationBody(work, clock.nowMs())),
    artifacts: new MemoryArtifacts(),
    fetchKeySet: () => Promise.reject(new Error("a server without ports fetches no keys")),
    onFailed: () => {},
    lookAgainMs: Number.POSITIVE_INFINITY,
  });
  const endpoints = newEndpoints("in-process");
  const streams = composeStreams({ ...parts, core, endpoints });
  const timestamps = new Timestamps(config.timezone);
  const openHttp = (): Http => composeHttp({ ...parts, core, endpoints, timestamps });
  return new InProcessServer({ core, streams, brokers, openHttp, config, endpoints });
}

function readConfig(env: Readonly<Record<string, string>>): Config {
  const memory = { PERSISTENCE_PROVIDER: "memory", CODEQ_ARTIFACT_SWEEP_SECONDS: "0" };
  const loaded = loadConfig({ argv: [], env: { ...env, ...memory }, readFile: () => "" });
  if (loaded.ok) return loaded.config;
  throw new Error(`the configuration has problems: ${loaded.problems.join("; ")}`);
}

/** A file comes as a stream. */
async function payloadOf(body: NonNullable<RequestInit["body"]>): Promise<string | Buffer> {
  if (typeof body === "string") return body;
  return Buffer.from(await new Response(body).arrayBuffer());
}

function codeOf(header: unknown): Record<string, string> {
  return typeof header === "string" ? { "codeq-error": header } : {};
}
