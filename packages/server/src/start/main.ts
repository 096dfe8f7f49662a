/**
 * Arguments, configuration, composition, listening, signals; or, with `keys` as the first argument,
 * the management of API keys while no server runs. Exit codes: 0 after a shutdown, 1 for a
 * bug, 2 for a bad configuration, 3 when the data directory is in use, 4 when the data cannot be
 * opened, 5 when a port cannot be bound, 28 when the disk is too full to open the data, 74 when the
 * storage failed while running.
 */
import { randomBytes, randomFillSync } from "node:crypto";
import { FaultError } from "@codeq/engine";
import type { FastifyInstance } from "fastify";
import { renderHelp } from "../config/describe.ts";
import {
  connectionsThatFit,
  isLoweredNotably,
  openFilesAdvice,
  readOpenFilesMax,
} from "../config/listeners.ts";
import { loadProcessConfig } from "../config/load.ts";
import { type Config, shownDurability } from "../config/settings.ts";
import { systemClock as clock } from "../core/clock.ts";
import { createPost } from "../core/outbound/post.ts";
import { createPostWebhook } from "../core/sweeps/deliver-webhooks.ts";
import { Timestamps } from "../core/timestamps.ts";
import { fetchKeySet } from "../edge/access/key-set.ts";
import { type Endpoints, newEndpoints } from "../edge/http/health.ts";
import { type Certificates, loadCertificates } from "../edge/tls/certificates.ts";
import { ServerTls } from "../edge/tls/server-tls.ts";
import { openArtifactProvider } from "../features/artifacts/local-artifacts.ts";
import { createPostNotification } from "../features/subscriptions/notify-subscribers.ts";
import type { Streams } from "../features/tasks/streams/streams.ts";
import { createLogger, type Logger } from "../telemetry/logger.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { openMetricExport, openTracing } from "../telemetry/tracing/open-telemetry.ts";
import type { Tracing } from "../telemetry/tracing/tracing.ts";
import { assertShardsThere, checkStores, noteStore } from "./check-stores.ts";
import {
  collectConnectionMetrics,
  collectProcessMetrics,
  openProcessProbe,
} from "./collect-metrics.ts";
import { type Core, composeCore, composeHttp, composeStreams } from "./compose.ts";
import { runKeysCommand } from "./keys-command.ts";
import { ListenError, type Listening, listenAll } from "./listen.ts";
import { assertKindOfServer, openDataDir, settleDataDir } from "./open-data-dir.ts";
import { drawUniform } from "./shards/open-shard.ts";
import { openShardThreads } from "./shards/shard-threads.ts";
import { stopRequested } from "./stop-requests.ts";
import { welcome } from "./welcome.ts";

const exitCodes = { config: 2, locked: 3, data: 4, port: 5, full: 28, storage: 74 } as const;

function exit(code: number, message: string): never {
  process.stderr.write(`codeq: ${message}\n`);
  process.exit(code);
}

interface Given {
  readonly config: Config;
  /** Undefined without TLS. */
  readonly certificates: Certificates | undefined;
  /** Messages about settings that were adapted to this machine. */
  readonly advice: string | undefined;
}

function readConfig(argv: readonly string[]): Given {
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(renderHelp());
    process.exit(0);
  }
  let certificates: Certificates | undefined;
  const loaded = loadProcessConfig(argv, (config) => {
    const checked = loadCertificates(config, clock.nowMs());
    certificates = checked.certificates;
    return { problems: checked.problems, warnings: checked.warnings };
  });
  if (!loaded.ok) {
    const list = loaded.problems.map((problem) => `  - ${problem}`).join("\n");
    return exit(
      exitCodes.config,
      `the configuration has ${loaded.problems.length} problem(s):\n${list}`,
    );
  }
  for (const warning of loaded.warnings) process.stderr.write(`codeq: warning: ${warning}\n`);
  const openFilesMax = readOpenFilesMax();
  const connectionsMax = connectionsThatFit(loaded.config, openFilesMax);
  const isLowered = isLoweredNotably(loaded.config, openFilesMax);
  const advice = isLowered ? openFilesAdvice(loaded.config, openFilesMax) : undefined;
  return { config: { ...loaded.config, connectionsMax }, certificates, advice };
}

/** Reads new certificates when they are there, and when it is asked to. */
function startTls({ config, certificates }: Given, logger: Logger): ServerTls | undefined {
  if (certificates === undefined) {
    process.on("SIGHUP", () => logger.info("SIGHUP ignored: no certificates are configured"));
    return undefined;
  }
  const tls = new ServerTls({ settings: config, certificates, logger, clock });
  process.on("SIGHUP", () => tls.reload());
  return tls;
}

interface Running {
  readonly core: Core;
  readonly http: FastifyInstance;
  readonly streams: Streams;
  readonly endpoints: Endpoints;
  readonly tracing: Tracing;
  readonly metricExport: AsyncDisposable;
}

/** The callers in flight hear of it first; what the disk holds is sorted out by the next start. */
function onFailed(fault: FaultError): void {
  setImmediate(() => exit(exitCodes.storage, `storage failed: ${fault.message}`));
}

async function start(given: Given, logger: Logger): Promise<Running> {
  const { config } = given;
  await settleDataDir(config);
  assertKindOfServer(config);
  const tls = startTls(given, logger);
  const metrics = createMetrics({ commandsMax: config.metricsCommandsMax });
  const timestamps = new Timestamps(config.timezone);
  const probe = openProcessProbe(clock);
  collectProcessMetrics(metrics, probe);
  const tracing = await openTracing({ config, clock, logger, metrics });
  checkStores(config);
  const storage = await openDataDir(config, { clock, metrics, logger });
  const post = createPost({ config, clock });
  const core = await composeCore({
    config,
    clock,
    logger,
    metrics,
    storage,
    randomBytes: (into) => void randomFillSync(into),
    draw: drawUniform,
    artifacts: await openArtifactProvider(config, clock),
    post: createPostWebhook({ post, timestamps, tracing }),
    notify: createPostNotification({ post, clock, tracing }),
    tracing,
    fetchKeySet,
    defer: (run) => void setImmediate(run),
    openNode:
      config.clusterMembers === ""
        ? undefined
        : async (store, shard) =>
            (await import("./cluster/open-node.ts")).openNode(store, { ...shard, onFailed }),
    openShards: async ({ storeId, mustExist }) => {
      if (mustExist) assertShardsThere(config);
      return await openShardThreads({ config, clock, logger, storeId });
    },
    onFailed,
  });
  noteStore(config, storage);
  const endpoints = newEndpoints(randomBytes(12).toString("base64url"));
  const shared = { core, config, logger, metrics, endpoints, tls, tracing };
  const http = composeHttp({ ...shared, timestamps, clock });
  const streams = composeStreams({ ...shared, clock });
  collectConnectionMetrics(metrics, { http, streams, tls });
  const metricExport = await openMetricExport({ config, clock, logger, scrape: core.scrape });
  return { core, http, streams, endpoints, tracing, metricExport };
}

async function listen(running: Running, config: Config): Promise<Listening> {
  try {
    return await listenAll(running, config);
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    return exit(exitCodes.port, error.message);
  }
}

/** Finishes what is in flight within the grace. */
async function stop(
  reason: string,
  { running, listening, config }: { running: Running; listening: Listening; config: Config },
): Promise<void> {
  const graceMs = config.shutdownGraceSeconds * 1000;
  logger.info("stopping", { signal: reason, graceSeconds: config.shutdownGraceSeconds });
  const cancel = clock.after(graceMs, () => {
    logger.warn("the shutdown grace period is over; closing open connections");
    running.http.connections.destroyAll();
  });
  running.streams.stopServing();
  running.core.broker.stopWaiting();
  await listening.close(graceMs);
  cancel();
  await running.metricExport[Symbol.asyncDispose]();
  await running.core[Symbol.asyncDispose]();
  await running.tracing[Symbol.asyncDispose]();
  logger.info("stopped");
  process.exit(0);
}

function codeOf(error: unknown): number {
  if (!(error instanceof FaultError)) return 1;
  if (error.code === "disk_full") return exitCodes.full;
  return error.code === "locked" ? exitCodes.locked : exitCodes.data;
}

const argv = process.argv.slice(2);
if (argv[0] === "keys") {
  const { code, output, problem } = await runKeysCommand(argv.slice(1), {
    clock,
    loadConfig: loadProcessConfig,
    randomBytes: (into) => void randomFillSync(into),
  });
  process.stdout.write(output);
  if (problem !== "") exit(code, problem);
  process.exit(code);
}

// Before anything else: the first process of a container ignores signals that it has no handler for.
const stopReason = stopRequested(clock.monotonicMs, (reason) =>
  exit(1, `${reason} again: stopping immediately; the next start recovers the data`),
);
// The reader of the output may end before the server; only lines are lost then.
for (const output of [process.stdout, process.stderr]) output.on("error", () => {});
const given = readConfig(argv);
const { config } = given;
const logger = createLogger({
  level: config.logLevel,
  format: config.logFormat,
  write: (line) => void process.stdout.write(line),
  nowMs: () => clock.nowMs(),
});

if (given.advice !== undefined) logger.info(given.advice);
try {
  const running = await start(given, logger);
  const listening = await listen(running, config);
  void stopReason.then((reason) => stop(reason, { running, listening, config }));
  const { host } = config;
  logger.info("listening", { host, ...listening.ports, durability: shownDurability(config) });
  // Where no person looks at the output, there are log lines only.
  if (config.env === "dev" || process.stdout.isTTY) {
    process.stdout.write(welcome(config, listening.ports));
  }
} catch (error) {
  const message =
    error instanceof FaultError ? error.message : ((error as Error).stack ?? String(error));
  exit(codeOf(error), message);
}
