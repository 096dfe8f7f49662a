/**
 * A whole server in this process with both of its gRPC ports on the loopback, and a clock that moves
 * when it is told to.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { settle } from "@codeq/simulated";
import type { GrpcServer } from "../../packages/server/src/edge/grpc/grpc-server.ts";
import { newEndpoints } from "../../packages/server/src/edge/http/health.ts";
import type { Streams } from "../../packages/server/src/features/tasks/streams/streams.ts";
import { collectConnectionMetrics } from "../../packages/server/src/start/collect-metrics.ts";
import { composeStreams } from "../../packages/server/src/start/compose.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";
import { type Options, type RunningServer, until, World } from "../contract/setup.ts";
import { keepLog } from "../test-results.ts";
import { Call } from "./call.ts";
import { type Fields, producerStream, type Reply, workerStream } from "./messages.ts";
import { RawConnection } from "./raw-connection.ts";
import { producerAuth, workerAuth } from "./tokens.ts";

type Port = "worker" | "producer";

/** Shorter than a ping of a connection may take to be answered. */
const stepMs = 10_000;
/** Turns of the event loop in which both ends answer a ping. */
const turnsPerStep = 20;

export class Server {
  readonly api: RunningServer;
  readonly streams: Streams;
  readonly grpc: Readonly<Record<Port, GrpcServer>>;
  readonly ports: Record<Port, number> = { worker: 0, producer: 0 };
  readonly #logged: string[] = [];
  readonly #opened: { close(): void }[] = [];
  #isStopped = false;

  constructor(api: RunningServer) {
    this.api = api;
    const { core, config, metrics, clock } = api;
    const logger = createLogger({
      level: "debug",
      format: "json",
      nowMs: () => clock.nowMs(),
      write: (line) => {
        this.#logged.push(line);
        api.lines.push(line);
      },
    });
    this.streams = composeStreams({
      core,
      config,
      logger,
      metrics,
      clock,
      endpoints: newEndpoints("test"),
    });
    collectConnectionMetrics(metrics, { http: api.app, streams: this.streams, tls: undefined });
    this.grpc = { worker: this.streams.server(), producer: this.streams.server() };
  }

  async listen(): Promise<void> {
    const address = { host: "127.0.0.1", port: 0 };
    this.ports.worker = (await this.grpc.worker.listen(address)).port;
    this.ports.producer = (await this.grpc.producer.listen(address)).port;
  }

  /** Closes it when the test is over. */
  track<T extends { close(): void }>(opened: T): T {
    this.#opened.push(opened);
    return opened;
  }

  /** A stream on which nothing was said yet. */
  open(kind: Port, port: Port = kind): Call {
    const codec = kind === "worker" ? workerStream : producerStream;
    return this.track(new Call(codec, `127.0.0.1:${this.ports[port]}`));
  }

  /** A stream whose Hello was accepted. */
  async worker(token = "worker-acme", workerId = ""): Promise<Call> {
    const call = this.open("worker");
    await call.ask({ hello: { token, workerId } });
    return call;
  }

  async producer(token = "producer-acme"): Promise<Call> {
    const call = this.open("producer");
    await call.ask({ hello: { token } });
    return call;
  }

  raw(port: Port): RawConnection {
    return this.track(new RawConnection(this.ports[port]));
  }

  /** A worker with one task, and the task as it came. */
  async leased(fields: Fields = {}, token = "worker-acme"): Promise<{ call: Call; task: Reply }> {
    await this.api.create(fields);
    const call = await this.worker(token);
    const { task } = await call.ask({ ready: {} });
    return { call, task: task.task };
  }

  /** Resolves when this many claims wait for work. */
  untilWaiting(count: number): Promise<void> {
    return this.api.untilWaiting(count);
  }

  /** How many tasks are ready, also those that are not durable yet. */
  readyNow(): number {
    return this.api.core.shard.counts("acme" as never, "render").ready[0] ?? 0;
  }

  /** Holds back the next write of the log until the returned function is called. */
  holdWrites(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.api.world.disk.slow("write", promise);
    return resolve;
  }

  /** The disk takes no write until `free` is called and a moment has passed. */
  async fillDisk(): Promise<{ free(): Promise<void> }> {
    const { disk } = this.api.world;
    disk.capacityBytes = 0;
    disk.failNext("write", "ENOSPC");
    const filler = { command: "filler", payload: 0 };
    assert.equal((await this.api.post("/tasks", filler, "producer-acme")).status, 507);
    return {
      free: async () => {
        disk.capacityBytes = Number.MAX_SAFE_INTEGER;
        await this.pass(2000);
        assert.equal(this.api.core.store.state, "open");
      },
    };
  }

  /** Lets time pass slowly enough for the ends of every connection to notice each other. */
  async pass(ms: number): Promise<void> {
    for (let leftMs = ms; leftMs > 0; leftMs -= stepMs) {
      await this.api.clock.advance(Math.min(leftMs, stepMs));
      await settle(turnsPerStep);
    }
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    for (const each of this.#opened) each.close();
    const closed = Promise.all([this.grpc.worker.close(0), this.grpc.producer.close(0)]);
    await until(() => this.grpc.worker.connections + this.grpc.producer.connections === 0);
    await closed;
    await this.api.stop();
    // Nothing that a client does may look like a bug of the server.
    assert.deepEqual(this.takeBugs(), []);
  }

  /** What has been logged as a bug; for a test that causes one. */
  takeBugs(): string[] {
    return this.#logged.splice(0).filter((line) => line.includes('"level":"error"'));
  }
}

/** A server of its own for one test. */
export async function setup(t: TestContext, options: Options = {}): Promise<Server> {
  const settings = { producerAuth, workerAuth, ...options.settings };
  const world = new World({ ...options, settings });
  const server = new Server(await world.start());
  await server.listen();
  t.after(() => {
    keepLog(t, server.api.lines);
    return server.stop();
  });
  return server;
}
