/**
 * A whole server in this process on real ports, with TLS or without. Storage and tokens are those of
 * the contract tests.
 */
import type { Socket } from "node:net";
import type { TestContext } from "node:test";
import type { SimClock } from "@codeq/simulated";
import type { Config } from "../../packages/server/src/config/settings.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { Timestamps } from "../../packages/server/src/core/timestamps.ts";
import type { GrpcServer } from "../../packages/server/src/edge/grpc/grpc-server.ts";
import { newEndpoints } from "../../packages/server/src/edge/http/health.ts";
import {
  loadCertificates,
  type TlsSettings,
} from "../../packages/server/src/edge/tls/certificates.ts";
import { ServerTls } from "../../packages/server/src/edge/tls/server-tls.ts";
import { composeHttp, composeStreams } from "../../packages/server/src/start/compose.ts";
import { listenAll, type Ports } from "../../packages/server/src/start/listen.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";
import { createMetrics } from "../../packages/server/src/telemetry/metrics.ts";
import { type RunningServer, World } from "../contract/setup.ts";
import { producerAuth, workerAuth } from "../grpc/tokens.ts";

export interface Options {
  readonly settings?: Partial<Config>;
  /** Files that can be used. */
  readonly tls?: TlsSettings;
  /** Of all ports; the real one unless told. */
  readonly clock?: SimClock;
}

export interface Server {
  readonly api: RunningServer;
  readonly http: ReturnType<typeof composeHttp>;
  readonly ports: Required<{ readonly [K in keyof Ports]: number }>;
  /** One for each gRPC port. */
  readonly grpc: readonly GrpcServer[];
  readonly tls: ServerTls | undefined;
  /** Calls back with every socket that is accepted for HTTP. */
  onSocket(run: (socket: Socket) => void): void;
  /** How many connections for HTTP are open, and how many were given up. */
  readonly connections: number;
  readonly givenUp: number;
  /** Stops listening, and resolves when all connections are closed. */
  close(): Promise<void>;
  /** The first line with such a message, now or later. */
  line(message: string): Promise<string>;
  /** All lines so far. */
  readonly lines: readonly string[];
  /** What the ports measured, as text. */
  measured(): string;
}

export async function setup(t: TestContext, options: Options = {}): Promise<Server> {
  const addresses = {
    host: "127.0.0.1",
    port: 0,
    workerStreamAddr: ":0",
    producerStreamAddr: ":0",
  };
  const settings = { producerAuth, workerAuth, ...addresses, ...options.settings };
  const api = await new World({ settings }).start();
  const { core, config } = api;
  const log = new Log();
  const logger = createLogger({
    level: "debug",
    format: "json",
    nowMs: () => systemClock.nowMs(),
    write: (text) => log.take(text),
  });
  const tls = options.tls && openTls(options.tls, logger);
  const metrics = createMetrics({ commandsMax: config.metricsCommandsMax });
  const endpoints = newEndpoints("test");
  const parts = { core, config, logger, metrics, endpoints, tls };
  const http = composeHttp({
    ...parts,
    timestamps: new Timestamps(config.timezone),
    clock: options.clock ?? systemClock,
  });
  const streams = composeStreams({ ...parts, clock: options.clock ?? systemClock });
  const grpc: GrpcServer[] = [];
  const counted = {
    ...streams,
    server: () => {
      const server = streams.server();
      grpc.push(server);
      return server;
    },
  };
  const { ports, close } = await listenAll({ http, streams: counted, endpoints }, config);
  t.after(async () => {
    tls?.[Symbol.dispose]();
    const closed = close(0);
    http.connections.destroyAll();
    await options.clock?.advance(1000);
    await closed;
    await api.stop();
  });
  return {
    api,
    http,
    grpc,
    tls,
    onSocket: (run) => void http.server.on("connection", run),
    get connections() {
      return http.connections.size;
    },
    get givenUp() {
      return http.connections.givenUp;
    },
    close: () => close(0),
    ports: {
      port: ports.port,
      workerStreamPort: ports.workerStreamPort ?? 0,
      producerStreamPort: ports.producerStreamPort ?? 0,
    },
    line: (message) => log.line(message),
    lines: log.lines,
    measured: () => metrics.render(),
  };
}

function openTls(settings: TlsSettings, logger: ReturnType<typeof createLogger>): ServerTls {
  const { certificates, problems } = loadCertificates(settings, systemClock.nowMs());
  if (certificates === undefined) throw new Error(problems.join("\n"));
  return new ServerTls({ settings, certificates, logger, clock: systemClock });
}

class Log {
  readonly lines: string[] = [];
  #onLine: () => void = () => {};

  take(line: string): void {
    this.lines.push(line);
    this.#onLine();
  }

  async line(message: string): Promise<string> {
    for (;;) {
      const found = this.lines.find((line) => line.includes(`"msg":"${message}`));
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        this.#onLine = resolve;
      });
    }
  }
}
