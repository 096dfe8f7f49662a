/**
 * THE table of configuration: one row per setting. Reading from file, environment and flags, the check of
 * every value, `--help`, the masked listing and the manual page all follow from a row; adding a
 * setting is adding a row here and a field to `Settings`, and one without the other does not compile.
 */
import { limits } from "@codeq/protocol";
import { accessSettings } from "./access-settings.ts";
import { artifactSettings } from "./artifact-settings.ts";
import { persistenceBlob } from "./blobs.ts";
import { clusterSettings } from "./cluster-settings.ts";
import { connectionSettings } from "./connection-settings.ts";
import { consoleSettings } from "./console-settings.ts";
import { choice, isTimeZone, text, trueOrFalse } from "./parsers.ts";
import { noQuotas, quotasBlob } from "./quotas.ts";
import { rateLimitSettings } from "./rate-limit-settings.ts";
import { bytes, count, type SettingRow, seconds } from "./setting-row.ts";
import type { SettingName, Settings } from "./settings.ts";
import { storageSettings } from "./storage-settings.ts";
import { tracingSettings } from "./tracing-settings.ts";
import { noWebhookSecrets, webhookSecretsBlob } from "./webhook-secrets.ts";

export type SettingTable = { readonly [K in SettingName]: SettingRow<Settings[K]> };

const yearSeconds = 366 * 24 * 60 * 60;
const decadeSeconds = 10 * yearSeconds;
const gibibyte = 1024 * 1024 * 1024;

const directory = text({ accepts: "a directory", example: "./data" });

const sameHost = "Without a host, the port listens on `host`; `off` turns the port off.";
const streamAddress = text({
  accepts: "host:port, :port or off, with a port from 0 to 65535",
  example: ":9091",
  test: (address) => {
    if (address === "off") return true;
    const [, port] = /^(?:\[[0-9a-fA-F:]+\]|[^:\s]*):(\d{1,5})$/.exec(address) ?? [];
    return port !== undefined && Number(port) <= 65_535;
  },
});

export const settingTable: SettingTable = {
  port: {
    ...count(0, 65_535, 8080),
    env: ["PORT"],
    about: "TCP port of the HTTP API; 0 selects a free port.",
  },
  host: {
    env: ["HOST"],
    parser: text({ accepts: "an address or host name", example: "0.0.0.0" }),
    initial: "127.0.0.1",
    about:
      "Address to listen on; the default accepts connections from this machine only, `0.0.0.0` from all networks.",
  },
  workerStreamAddr: {
    env: ["WORKER_STREAM_ADDR"],
    parser: streamAddress,
    initial: ":9091",
    about: `Address of the gRPC port for workers; it also serves producers. ${sameHost}`,
  },
  producerStreamAddr: {
    env: ["PRODUCER_STREAM_ADDR"],
    parser: streamAddress,
    initial: ":9092",
    about: `Address of the gRPC port for producers; it also serves workers. ${sameHost}`,
  },
  ...connectionSettings,
  env: {
    env: ["ENV"],
    parser: text({
      accepts: "a word of lower-case letters, digits, _ and -",
      example: "prod",
      test: (word) => /^[a-z][a-z0-9_-]{0,31}$/.test(word),
    }),
    initial: "dev",
    about:
      "Name of the environment; only `dev` allows the development token and an empty webhook secret.",
  },
  logLevel: {
    env: ["LOG_LEVEL"],
    parser: choice(["debug", "info", "warn", "error"], { synonyms: { warning: "warn" } }),
    initial: "info",
    about: "Minimum level of the log lines to write.",
  },
  logFormat: {
    env: ["LOG_FORMAT"],
    parser: choice(["json", "text"]),
    initial: "json",
    about: "Format of the log lines.",
  },
  timezone: {
    env: ["TIMEZONE"],
    parser: text({
      accepts: "an IANA time zone",
      example: "America/Sao_Paulo",
      test: isTimeZone,
    }),
    initial: "UTC",
    about:
      "Time zone of the timestamps in answers; the default of the Go server was `America/Sao_Paulo`.",
  },
  shutdownGraceSeconds: {
    ...seconds(0, 3600, 10),
    about: "Time that requests in flight get to finish after a stop signal.",
  },
  persistenceProvider: {
    env: ["PERSISTENCE_PROVIDER"],
    parser: choice(["embedded", "memory"], {
      synonyms: { pebble: "embedded" },
      refusals: {
        redis:
          "this server keeps tasks in its own embedded store and does not use Redis or KVRocks; " +
          "use embedded (or its synonym pebble) and set dataDir",
      },
    }),
    initial: "embedded",
    about:
      "Where tasks are stored: `embedded` on disk in dataDir (`pebble` is a synonym), `memory` in memory until the process ends.",
  },
  persistenceConfig: {
    env: ["PERSISTENCE_CONFIG"],
    parser: persistenceBlob,
    initial: {},
    initialInWords: "empty",
    // Files written for other stores keep a password in here.
    secret: true,
    about:
      "Older form of dataDir (`path`), durability (`fsyncOnCommit: true` means `fsync`) and shards (`numShards`).",
  },
  dataDir: {
    parser: directory,
    initial: "./data",
    about: "Directory of the log and the store; used by one server process at a time.",
  },
  durability: {
    parser: choice(["fsync", "interval", "os"]),
    initial: "fsync",
    about:
      "When an acknowledged change is synced to disk: `fsync` before the acknowledgement, `interval` within syncIntervalMs, `os` when the operating system writes it.",
  },
  syncIntervalMs: {
    ...count(1, 60_000, 100),
    unit: "milliseconds",
    about: "Longest time between two syncs when durability is `interval`.",
  },
  shards: {
    ...count(1, 64, 1),
    about:
      "Number of shards: threads with their own store, over which the server distributes its tasks. Recorded when the data directory is first used; `codeq shards migrate` changes it.",
  },
  minFreeDiskBytes: {
    ...bytes(0, 1024 * gibibyte, 64 * 1024 * 1024),
    about: "Minimum free disk space; below it the server refuses writes.",
  },
  ...storageSettings,
  ...clusterSettings,
  ...artifactSettings,
  retentionSeconds: {
    ...seconds(1, decadeSeconds, 86_400),
    about: "How long a finished task and its result are kept, from the end of the task.",
  },
  dlqRetentionSeconds: {
    ...seconds(0, decadeSeconds, 604_800),
    about: "How long a dead letter is kept; 0 keeps it forever.",
  },
  auditRetentionSeconds: {
    ...seconds(0, decadeSeconds, 90 * 86_400),
    about: "How long an audit record is kept; 0 keeps it forever.",
  },
  ...accessSettings,
  defaultLeaseSeconds: {
    ...seconds(limits.leaseSecondsMin, limits.leaseSecondsMax, 300),
    env: ["DEFAULT_LEASE_SECONDS"],
    about: "Default length of a lease.",
  },
  maxAttemptsDefault: {
    ...count(1, limits.maxAttemptsMax, 5),
    env: ["MAX_ATTEMPTS_DEFAULT"],
    about: "Default number of attempts before a task becomes a dead letter.",
  },
  backoffPolicy: {
    env: ["BACKOFF_POLICY"],
    parser: choice(["exp_full_jitter", "exp_equal_jitter", "exponential", "linear", "fixed"]),
    initial: "exp_full_jitter",
    about: "How the delay before a retry grows with the number of attempts.",
  },
  backoffBaseSeconds: {
    ...seconds(1, yearSeconds, 5),
    env: ["BACKOFF_BASE_SECONDS"],
    about: "Base delay of the backoff.",
  },
  backoffMaxSeconds: {
    ...seconds(1, yearSeconds, 900),
    env: ["BACKOFF_MAX_SECONDS"],
    about: "Maximum delay of the backoff, and of a nack with a delay.",
  },
  webhookHmacSecret: {
    env: ["WEBHOOK_HMAC_SECRET"],
    parser: text({ accepts: "non-empty text", example: "..." }),
    initial: "",
    initialInWords: "none when env is `dev`, otherwise required",
    secret: true,
    about: "Secret that signs webhooks.",
  },
  webhookSecrets: {
    parser: webhookSecretsBlob,
    initial: noWebhookSecrets,
    initialInWords: "none: webhookHmacSecret is used",
    secret: true,
    about:
      "Secrets that sign webhooks, as defined by Standard Webhooks (`whsec_` and base64): a `default` for all tenants and `tenants` by name, each with one or two secrets, the newest first; both are used.",
  },
  webhookAllowPrivateNetworks: {
    parser: trueOrFalse,
    initial: false,
    about: "Whether webhooks may be sent to loopback, link-local and private addresses.",
  },
  webhookDisableAfterSeconds: {
    ...seconds(0, yearSeconds, 5 * 86_400),
    about:
      "How long callbacks to an endpoint may fail, without one that is delivered, before it is disabled; 0 never disables it. An endpoint that answers 410 is disabled at once.",
  },
  resultWebhookMaxAttempts: {
    ...count(1, 100, 5),
    env: ["RESULT_WEBHOOK_MAX_ATTEMPTS"],
    about: "Maximum number of tries to deliver a callback.",
  },
  resultWebhookBaseBackoffSeconds: {
    ...seconds(1, 86_400, 2),
    env: ["RESULT_WEBHOOK_BASE_BACKOFF_SECONDS"],
    about: "Delay after the first failed try of a callback; it doubles with every further try.",
  },
  resultWebhookMaxBackoffSeconds: {
    ...seconds(1, 86_400, 60),
    env: ["RESULT_WEBHOOK_MAX_BACKOFF_SECONDS"],
    about: "Maximum delay between two tries of a callback.",
  },
  subscriptionMinIntervalSeconds: {
    ...seconds(1, 86_400, 5),
    env: ["SUBSCRIPTION_MIN_INTERVAL_SECONDS"],
    about: "Shortest time between two notifications of a subscriber about the same queue.",
  },
  subscriptionCleanupIntervalSeconds: {
    ...seconds(1, 86_400, 60),
    env: ["SUBSCRIPTION_CLEANUP_INTERVAL_SECONDS"],
    about: "How often subscriptions that have run out are removed from the store.",
  },
  bodyBytesMax: {
    ...bytes(1024, gibibyte, limits.bodyBytesMax),
    about: "Maximum size of a request body; at most 6291456 in a cluster.",
  },
  payloadBytesMax: {
    ...bytes(1024, gibibyte, limits.payloadBytesMax),
    about:
      "Maximum size of a payload; at most bodyBytesMax, and at most 4128768 if workers use streams.",
  },
  lenientInput: {
    parser: trueOrFalse,
    initial: false,
    about:
      "Whether unknown fields and query parameters are ignored instead of refused, for old clients.",
  },
  createBatchMax: {
    ...count(1, 100_000, limits.createBatchMax),
    about: "Maximum number of tasks in a batch create.",
  },
  claimBatchMax: {
    ...count(1, 100_000, limits.claimBatchMax),
    about: "Maximum number of tasks in a batch claim.",
  },
  resultBatchMax: {
    ...count(1, 100_000, limits.resultBatchMax),
    about: "Maximum number of results in a batch submit.",
  },
  metricsCommandsMax: {
    ...count(1, 100_000, 200),
    about:
      "Maximum number of commands with their own metrics; all others are counted together as `_other`.",
  },
  metricsToken: {
    parser: text({ accepts: "non-empty text", example: "..." }),
    initial: "",
    initialInWords: "none",
    secret: true,
    about:
      "Token that lets callers from other machines see command names in `/metrics`; operators and callers on this machine always see them.",
  },
  ...consoleSettings,
  quotas: {
    parser: quotasBlob,
    initial: noQuotas,
    initialInWords: "none",
    about:
      "Quotas of tenants: a `default` for all tenants and `tenants` by name, each with pendingTasks, storedBytes, requestsPerSecond and concurrentLeases; 0 means no limit.",
  },
  ...tracingSettings,
  ...rateLimitSettings,
};

export const settingNames: readonly SettingName[] = Object.keys(settingTable) as SettingName[];

/** The row without its value type, for code that treats all settings alike. */
export function rowOf(name: SettingName): SettingRow<unknown> {
  return settingTable[name] as SettingRow<unknown>;
}

export function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(settingTable, name);
}

/** `dataDir` -> `data-dir`, `raft.peerHTTPAddrs` -> `raft-peer-http-addrs`. */
function kebabCase(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1-$2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1-$2")
    .replaceAll(".", "-")
    .toLowerCase();
}

export function flagOf(name: string): string {
  return `--${kebabCase(name)}`;
}

/** The uniform variable of a key; it wins over the names that the contract gives the key. */
function uniformEnvOf(name: string): string {
  return `CODEQ_${kebabCase(name).replaceAll("-", "_").toUpperCase()}`;
}

export function envNamesOf(name: string, others: readonly string[] = []): readonly string[] {
  return [uniformEnvOf(name), ...others];
}

/** By the setting, the variable that names the file with its secret. */
export const secretFileVariables: ReadonlyMap<SettingName, string> = new Map(
  settingNames
    .filter((name) => rowOf(name).secret === true)
    .map((name) => [name, `${envNamesOf(name)[0]}_FILE`]),
);
