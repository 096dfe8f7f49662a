/** Opens the API keys of a data directory, without any other part of the server, and closes them. */
import { FaultError } from "@codeq/engine";
import type { Config } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import { LocalControl } from "../core/control/local-control.ts";
import type { RandomBytes } from "../core/task-ids.ts";
import { ApiKeys } from "../edge/access/api-keys/api-keys.ts";
import { Revocations } from "../edge/access/token-provider.ts";
import { AuditTrail } from "../edge/audit/audit-trail.ts";
import { createLogger } from "../telemetry/logger.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { openDataDir } from "./open-data-dir.ts";
import { openStore } from "./shards/open-shard.ts";

export async function withApiKeys<T>(
  config: Config,
  parts: { readonly clock: Clock; readonly randomBytes: RandomBytes },
  use: (opened: { readonly apiKeys: ApiKeys; readonly audit: AuditTrail }) => Promise<T>,
): Promise<T> {
  if (config.persistenceProvider === "memory") {
    throw new FaultError("format", "persistenceProvider is memory, so there is no data directory");
  }
  const { clock, randomBytes } = parts;
  // What it has to say comes back as a fault.
  const logger = createLogger({
    level: "error",
    format: "json",
    nowMs: () => clock.nowMs(),
    write: () => {},
  });
  const metrics = createMetrics({ commandsMax: 1 });
  const storage = await openDataDir(config, { clock, metrics, logger });
  const store = await openStore({
    config,
    clock,
    logger,
    metrics,
    storage,
    defer: (run) => void setImmediate(run),
    onState: () => {},
  });
  try {
    const revocations = new Revocations();
    const retentionMs = config.auditRetentionSeconds * 1000;
    const control = new LocalControl(store);
    const audit = new AuditTrail({ store: control, clock, logger, randomBytes, retentionMs });
    const apiKeys = await ApiKeys.open({ store: control, clock, revocations, randomBytes });
    return await use({ apiKeys, audit });
  } finally {
    await store[Symbol.asyncDispose]();
  }
}
