/**
 * A shard in its own thread. It gets its configuration and first reports whether it could be opened; then it
 * exchanges messages with its router until it is asked to stop.
 */
import assert from "node:assert/strict";
import { randomFillSync } from "node:crypto";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { FaultError } from "@codeq/engine";
import { isLimited } from "../../config/quotas.ts";
import type { Config } from "../../config/settings.ts";
import { systemClock as clock } from "../../core/clock.ts";
import { webhookLimiterOfShard } from "../../core/limiter/limiter.ts";
import { createPost } from "../../core/outbound/post.ts";
import { ShardHost } from "../../core/shards/shard-host.ts";
import { createPostWebhook } from "../../core/sweeps/deliver-webhooks.ts";
import { Timestamps } from "../../core/timestamps.ts";
import { openArtifactProvider } from "../../features/artifacts/local-artifacts.ts";
import { Feed } from "../../telemetry/feed.ts";
import { createLogger } from "../../telemetry/logger.ts";
import { createMetrics } from "../../telemetry/metrics.ts";
import { openTracing } from "../../telemetry/tracing/open-telemetry.ts";
import type { Tracing } from "../../telemetry/tracing/tracing.ts";
import { noteStore } from "../check-stores.ts";
import { openDataDir } from "../open-data-dir.ts";
import { drawUniform, openShard, type Shard, type ShardName } from "./open-shard.ts";

export interface ShardThreadData {
  readonly config: Config;
  readonly shard: ShardName;
}

/** What a thread says besides the messages to its router. */
export type ShardThreadWord =
  | { readonly word: "opened" }
  | { readonly word: "stopped" }
  | { readonly word: "failed"; readonly code: FaultError["code"]; readonly message: string };

assert(parentPort !== null, "runs in a thread");
const port = parentPort;
const { config, shard } = workerData as ShardThreadData;
const metrics = createMetrics({ commandsMax: config.metricsCommandsMax });
const logger = createLogger({
  level: config.logLevel,
  format: config.logFormat,
  write: (line) => void process.stdout.write(line),
  nowMs: () => clock.nowMs(),
}).child({ shard: shard.number });
const feed = new Feed();
let host: ShardHost | undefined;

function say(word: ShardThreadWord): void {
  port.postMessage(word);
}

async function open(): Promise<Shard & { readonly tracing: Tracing }> {
  const tracing = await openTracing({ config, clock, logger, metrics, shard: shard.number });
  const directory = join(config.dataDir, `shard-${shard.number}`);
  const storage = await openDataDir({ ...config, dataDir: directory }, { clock, metrics, logger });
  const opened = await openShard({
    config,
    clock,
    logger,
    metrics,
    storage,
    shard,
    feed,
    tracing,
    limiter: webhookLimiterOfShard(config, clock),
    randomBytes: (into) => void randomFillSync(into),
    draw: drawUniform,
    artifacts: await openArtifactProvider(config, clock),
    post: createPostWebhook({
      post: createPost({ config, clock }),
      timestamps: new Timestamps(config.timezone),
      tracing,
    }),
    defer: (run) => void setImmediate(run),
    onState: (_state, fault) => host?.reportState(fault),
  });
  noteStore(config, storage, shard);
  return { ...opened, tracing };
}

async function stop(opened: Awaited<ReturnType<typeof open>>): Promise<void> {
  await opened[Symbol.asyncDispose]();
  await opened.tracing[Symbol.asyncDispose]();
}

try {
  const opened = await open();
  const made = await ShardHost.openAlone({
    broker: opened.broker,
    feed,
    shard: shard.number,
    count: config.shards,
    isLimited: isLimited(config.quotas),
    defer: (run) => void setImmediate(run),
    send: (message) => port.postMessage(message, [message.buffer]),
    onBug: (error) =>
      logger.error("a call failed", { error: (error as Error).stack ?? String(error) }),
    scrape: () => metrics.render(),
  });
  host = made;
  say({ word: "opened" });
  port.on("message", (message: Uint8Array | "stop") => {
    if (message !== "stop") {
      made.take(message);
      return;
    }
    void stop(opened).then(() => {
      say({ word: "stopped" });
      port.close();
    });
  });
} catch (error) {
  const code = error instanceof FaultError ? error.code : "storage_failed";
  say({ word: "failed", code, message: (error as Error).message });
  // Ends this thread only, with whatever it had opened by then.
  process.exit(1);
}
