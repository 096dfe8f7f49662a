/**
 * THE table of configuration: one row per setting. The types `Settings` and `Config`, reading from file, environment
 * and flags, the check of every value, `--help`, the masked listing and the manual page all follow from a row;
 * adding a setting is adding a row here.
 */
import { limits } from "@codeq/protocol";
import { authBlob, type WrittenAuth } from "./auth/auth-blob.ts";
import { noWebhookSecrets, persistenceBlob, webhookSecretsBlob } from "./blobs.ts";
import { clusterNodePattern, clusterUrlPattern } from "./cluster.ts";
import {
  choice,
  isTimeZone,
  list,
  type Parser,
  parsed,
  refused,
  text,
  trueOrFalse,
  wholeNumber,
} from "./parsers.ts";
import { initialQuotas, quotasBlob } from "./quotas.ts";
import { rateLimitSettings } from "./rate-limit-settings.ts";
import type { SettingName } from "./settings.ts";

export interface SettingRow<T> {
  /** Variables of the Go server, beside `CODEQ_<NAME>` which every setting has and which wins. */
  readonly env?: readonly string[];
  /** Also decides the type of the setting. */
  readonly parser: Parser<T>;
  readonly initial: NoInfer<T>;
  /** Text that the manual page shows instead of the default, if the default depends on something. */
  readonly initialInWords?: string;
  readonly unit?: "seconds" | "milliseconds" | "bytes";
  /** The value is never printed: not in messages, not in listings. */
  readonly secret?: true;
  /** One sentence: what the setting decides. */
  readonly about: string;
}

type SettingRows<T> = { readonly [K in keyof T]: SettingRow<T[K]> };

/** Checks that the default of each row has the type that its parser returns. */
const defineSettings = <T>(rows: SettingRows<T>): SettingRows<T> => rows;

const count = (min: number, max: number, initial: number) => ({
  parser: wholeNumber(min, max, initial),
  initial,
});
const seconds = (min: number, max: number, initial: number) =>
  ({ ...count(min, max, initial), unit: "seconds" }) as const;
const bytes = (min: number, max: number, initial: number) =>
  ({ ...count(min, max, initial), unit: "bytes" }) as const;
const flag = (initial: boolean) => ({ parser: trueOrFalse, initial });
/** The default of a text that need not be set. */
const unset = (initialInWords = "none") => ({ initial: "", initialInWords });

const yearSeconds = 366 * 24 * 60 * 60;
const decadeSeconds = 10 * yearSeconds;
const mebibyte = 1024 * 1024;
const gibibyte = 1024 * mebibyte;
const clusterSecretCharsMin = 32;

const clusterSecret = text({
  accepts: `a text of at least ${clusterSecretCharsMin} characters`,
  example: "...",
  test: (secret) => secret.length >= clusterSecretCharsMin,
});
const nonEmpty = text({ accepts: "non-empty text", example: "..." });
const directory = text({ accepts: "a directory", example: "./data" });
const file = text({ accepts: "a file", example: "/etc/codeq/tls.crt" });
const nodeFile = text({ accepts: "a file", example: "/etc/codeq/node.crt" });
const issuer = text({ accepts: "text", example: "https://id.example.com" });
const audience = text({ accepts: "text", example: "codeq" });
const url = text({
  accepts: "a URL with http or https",
  example: "https://queue.example.com",
  test: (value) => /^https?:\/\/[^\s?#]+$/.test(value) && URL.canParse(value),
});
const identityUrl = text({
  accepts: "an http or https URL",
  example: "https://id.example.com/jwks.json",
  test: (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
});
const pairs = (example: string): Parser<string> =>
  list({ of: "name=value pairs", pattern: /^[^=\s]+\s*=/, example });

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

const memorySize = wholeNumber(256 * mebibyte, 1024 * 1024 * mebibyte, 512 * mebibyte);

const nothingWritten: WrittenAuth = { shape: "static", providers: [] };
const auth = {
  parser: authBlob,
  initial: nothingWritten,
  initialInWords: "the development token when env is `dev`, otherwise required",
  secret: true,
} as const;
const authProvider = {
  parser: choice(["static", "jwks", "multi"]),
  initial: "static",
  initialInWords: "detected from the auth config",
} as const;
const ofProducers = "for producers without a producerAuthConfig";
const ofWorkers = "for workers without a workerAuthConfig";

const share: Parser<number> = {
  accepts: "a number from 0 to 1",
  example: "0.01",
  parse(raw) {
    const value = typeof raw === "string" && /^\d*\.?\d+$/.test(raw.trim()) ? Number(raw) : raw;
    const isShare = typeof value === "number" && value >= 0 && value <= 1;
    return isShare ? parsed(value) : refused(`expected ${this.accepts}`);
  },
};

export const settingTable = defineSettings({
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
  tlsCertFile: {
    parser: file,
    ...unset("none: no TLS"),
    about:
      "PEM file with the certificate for all ports: the certificate of the server, then the intermediate certificates. The server reloads the file when it changes.",
  },
  tlsKeyFile: {
    parser: file,
    ...unset("none: no TLS"),
    about: "PEM file with the private key of the certificate, without a passphrase.",
  },
  tlsClientCaFile: {
    parser: file,
    ...unset("none: no client certificates"),
    about: "PEM file with the CAs of client certificates; needs tlsCertFile.",
  },
  tlsClientAuth: {
    parser: choice(["required", "optional"]),
    initial: "required",
    about:
      "Whether client certificates are `required`, or `optional`: then only clients with an invalid certificate are rejected.",
  },
  insecure: {
    ...flag(false),
    about:
      "States that listening on other addresses without TLS is intended, for example behind a proxy that terminates TLS. Otherwise the server logs a warning.",
  },
  connectionsMax: {
    ...count(1, 1_000_000, 10_000),
    about:
      "Maximum number of open connections per port; above it the server closes the connection that has been idle for the longest time. Connections without a valid token may also take no more than an eighth of the memory, at 64 KiB each.",
  },
  headersTimeoutSeconds: {
    ...seconds(1, 3600, 10),
    about:
      "Time limit for the TLS handshake, and for the headers of a request; at most requestTimeoutSeconds.",
  },
  requestTimeoutSeconds: {
    ...seconds(1, 86_400, 60),
    about: "Time limit for receiving a whole HTTP request, including the body.",
  },
  keepAliveSeconds: {
    ...seconds(1, 86_400, 72),
    about:
      "How long an idle HTTP connection stays open; must be longer than the idle timeout of a proxy in front.",
  },
  headerBytesMax: {
    ...bytes(4096, 1024 * 1024, 16 * 1024),
    about: "Maximum size of the headers of a request or gRPC call.",
  },
  streamsPerConnectionMax: {
    ...count(1, 100_000, 256),
    about: "Maximum number of open gRPC calls per connection.",
  },
  streamsMax: {
    ...count(1, 1_000_000, 20_000),
    about: "Maximum number of open gRPC streams; one tenant can have at most half of them.",
  },
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
      "Older form of dataDir (`path`), durability (`fsyncOnCommit: true` means `fsync`, `false` means `os`) and shards (`numShards`).",
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
  lsmCacheBytes: {
    ...bytes(mebibyte, 64 * gibibyte, 32 * mebibyte),
    about:
      "Block cache of the store of each shard; a larger cache helps when many old tasks and results are read.",
  },
  lsmWriteBufferBytes: {
    ...bytes(mebibyte, gibibyte, 32 * mebibyte),
    about:
      "Write buffer of the store of each shard, held up to twice; a smaller buffer means more compactions.",
  },
  flushBytes: {
    ...bytes(64 * 1024, gibibyte, 6 * mebibyte),
    about:
      "Changes that each shard collects in memory before it flushes them to the store; at four times this size, commits wait for the flush.",
  },
  backupDir: {
    parser: text({ accepts: "a directory", example: "./backups" }),
    ...unset("`backups` under dataDir"),
    about: "Directory that backups are written to; choose one on another disk.",
  },
  sweepBatchMax: {
    ...count(1, 100_000, 256),
    about:
      "Maximum number of tasks per step of a sweep: expired leases, delayed tasks that became due, tasks whose retention ended.",
  },
  retentionSweepSeconds: {
    ...seconds(1, 86_400, 1),
    about:
      "Interval of the retention sweep; each sweep deletes the tasks whose retention has ended.",
  },
  scrubIntervalSeconds: {
    ...seconds(0, yearSeconds, 86_400),
    about: "How often the server verifies all files of the store; 0 verifies them only at start.",
  },
  clusterMembers: {
    parser: list({
      of: "id=host:port pairs",
      pattern: clusterNodePattern,
      example: "a=10.0.0.1:7000,b=10.0.0.2:7000,c=10.0.0.3:7000",
    }),
    ...unset("none: a server alone"),
    about:
      "All nodes of the cluster, this one included, with the address at which other nodes reach them. The two ports above each are for its etcd, unless etcdUrls is set.",
  },
  nodeId: {
    parser: text({ accepts: "the id of a node in clusterMembers", example: "a" }),
    ...unset(),
    about: "Which of clusterMembers this server is.",
  },
  clusterSecret: {
    parser: clusterSecret,
    ...unset(),
    secret: true,
    about: "Secret that all nodes of a cluster share.",
  },
  clusterSecretOther: {
    parser: clusterSecret,
    ...unset(),
    secret: true,
    about:
      "Another secret that other nodes may have, while clusterSecret is replaced one node after the other.",
  },
  clusterBootstrap: {
    parser: text({ accepts: "the id of a node in clusterMembers", example: "a" }),
    ...unset(),
    about:
      "The node that begins a new cluster if there is none; for the first start. The other nodes join it.",
  },
  clusterLogBytes: {
    ...bytes(mebibyte * 64, 8 * gibibyte, 2 * gibibyte),
    about:
      "Room for the logs of all shards together on every log server. The quota of etcd is twice as much.",
  },
  clusterTlsCertFile: {
    parser: nodeFile,
    ...unset("none: a certificate that follows from clusterSecret"),
    about:
      "PEM file with the certificate that this node shows to other nodes and log servers, which must name its host in clusterMembers. Read again when it changes.",
  },
  clusterTlsKeyFile: {
    parser: nodeFile,
    ...unset("none: a certificate that follows from clusterSecret"),
    about: "PEM file with the private key of clusterTlsCertFile, without a passphrase.",
  },
  clusterTlsCaFile: {
    parser: nodeFile,
    ...unset("none: a certificate that follows from clusterSecret"),
    about: "PEM file with the CA that signed the certificates of all nodes; others are refused.",
  },
  etcdUrls: {
    parser: list({
      of: "URLs",
      pattern: /^https?:\/\/./,
      example: "https://10.0.0.1:2379,https://10.0.0.2:2379",
    }),
    ...unset("none: every node runs an etcd of its own"),
    about:
      "Client URLs of an etcd that you run yourself: version 3.6, or at least 3.5.26, with --max-request-bytes=9437184. For https, codeQ shows the certificate of clusterTlsCertFile.",
  },
  etcdPrefix: {
    parser: text({ accepts: "a text", example: "codeq/" }),
    initial: "codeq/",
    about:
      "What the keys of this cluster begin with; clusters that share an etcd need different ones.",
  },
  etcdProgram: {
    parser: text({ accepts: "a program", example: "/usr/local/bin/etcd" }),
    ...unset(
      "the etcd beside codeQ, the one that `codeq cluster install-log` built, or the one in PATH",
    ),
    about: "The etcd that a node of a cluster runs, unless etcdUrls is set.",
  },
  etcdHeartbeatMs: {
    ...count(10, 10_000, 100),
    about:
      "How often the leader of etcd sends a heartbeat; about the round trip between the machines, or more.",
  },
  etcdElectionMs: {
    ...count(100, 50_000, 1000),
    about:
      "After this time without a heartbeat, etcd elects another leader; at least 5 times etcdHeartbeatMs. Nodes of codeQ take over after 1.5 times as long.",
  },
  clusterUrls: {
    parser: list({
      of: "id=url pairs",
      pattern: clusterUrlPattern,
      example: "a=https://a.example:8080,b=https://b.example:8080",
    }),
    ...unset("none: no redirects"),
    about:
      "The addresses of the HTTP API of all nodes, for clients that ask to be redirected to the leader.",
  },
  artifactProvider: {
    parser: choice(["local", "s3"]),
    initial: "local",
    about:
      "Where artifacts are kept: `local` in localArtifactsDir, `s3` in an S3-compatible store.",
  },
  localArtifactsDir: {
    env: ["LOCAL_ARTIFACTS_DIR"],
    parser: directory,
    ...unset("`artifacts` under dataDir"),
    about: "Directory for the artifacts of results.",
  },
  externalUrl: {
    parser: url,
    ...unset("none: the host of the request that stores the artifact"),
    about: "How clients reach the HTTP API; the URLs of artifacts begin with it.",
  },
  artifactBytesMax: {
    ...bytes(1, 5 * 1024 * gibibyte, gibibyte),
    about: "Largest artifact.",
  },
  artifactUploadsMax: {
    ...count(1, 10_000, 32),
    about:
      "Maximum number of artifacts that are uploaded at the same time, of which one tenant can have at most half; further uploads are refused for a moment. As many files inside of results are stored at the same time; further ones wait up to 10 seconds.",
  },
  artifactSweepSeconds: {
    ...seconds(0, 366 * 86_400, 6 * 3600),
    about:
      "How often the server looks for files that no result names and whose task has ended; 0 looks for them only at start.",
  },
  s3Endpoint: {
    parser: url,
    ...unset("that of AWS for the region"),
    about: "URL of the S3-compatible store.",
  },
  s3Region: {
    env: ["AWS_REGION", "AWS_DEFAULT_REGION"],
    parser: text({ accepts: "a region", example: "eu-central-1" }),
    initial: "us-east-1",
    about: "Region of the bucket.",
  },
  s3Bucket: {
    parser: text({
      accepts: "the name of a bucket",
      example: "codeq-artifacts",
      test: (value) => /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(value),
    }),
    ...unset("none; required when artifactProvider is `s3`"),
    about: "Bucket for the artifacts.",
  },
  s3Prefix: {
    parser: text({
      accepts: "text that a key can begin with",
      example: "codeq/",
      test: (value) => /^[A-Za-z0-9/_.-]{1,200}$/.test(value) && !value.startsWith("/"),
    }),
    initial: "codeq/",
    about: "What the keys of the objects begin with.",
  },
  s3PathStyle: {
    ...flag(false),
    about: "Whether the bucket stands in the path of the URL, as many stores beside AWS want it.",
  },
  s3AccessKeyId: {
    env: ["AWS_ACCESS_KEY_ID"],
    parser: text({ accepts: "non-empty text", example: "AKIA..." }),
    ...unset("none; required when artifactProvider is `s3`"),
    about: "Whose key signs the requests to the store.",
  },
  s3SecretAccessKey: {
    env: ["AWS_SECRET_ACCESS_KEY"],
    parser: nonEmpty,
    ...unset("none; required when artifactProvider is `s3`"),
    secret: true,
    about: "The key itself.",
  },
  s3SessionToken: {
    env: ["AWS_SESSION_TOKEN"],
    parser: nonEmpty,
    ...unset(),
    secret: true,
    about: "The token that belongs to temporary keys.",
  },
  s3Redirect: {
    ...flag(true),
    about:
      "Whether a download is redirected to the store with a URL that is valid for five minutes; otherwise the server passes the content on.",
  },
  retentionSeconds: {
    ...seconds(1, decadeSeconds, 86_400),
    about: "How long a finished task and its result are kept, from the end of the task.",
  },
  dlqRetentionSeconds: {
    ...seconds(0, decadeSeconds, 604_800),
    about: "How long a dead letter is kept; 0 keeps it forever.",
  },
  idempotencySeconds: {
    ...seconds(0, decadeSeconds, 604_800),
    about:
      "How long an idempotency key is kept, from the creation of its task. A key is kept at least as long as its task; 0 deletes it with the task.",
  },
  idempotencyMode: {
    parser: choice(["strict", "first"]),
    initial: "strict",
    about:
      "What a key does when its second request differs from the first: `strict` refuses the request, `first` answers with the first task. The header Codeq-Idempotency-Mode overrides it.",
  },
  auditRetentionSeconds: {
    ...seconds(0, decadeSeconds, 90 * 86_400),
    about: "How long an audit record is kept; 0 keeps it forever.",
  },
  producerAuthProvider: {
    ...authProvider,
    env: ["PRODUCER_AUTH_PROVIDER"],
    about: "Provider of producer tokens; must match producerAuthConfig if both are set.",
  },
  producerAuthConfig: {
    ...auth,
    env: ["PRODUCER_AUTH_CONFIG"],
    about:
      "Provider of the tokens of producers and administrators: static tokens, an identity server, or several providers.",
  },
  workerAuthProvider: {
    ...authProvider,
    env: ["WORKER_AUTH_PROVIDER"],
    about: "Provider of worker tokens; must match workerAuthConfig if both are set.",
  },
  workerAuthConfig: {
    ...auth,
    env: ["WORKER_AUTH_CONFIG"],
    about:
      "Provider of the tokens of workers: static tokens, an identity server, or several providers.",
  },
  identityServiceUrl: {
    ...unset(),
    parser: identityUrl,
    env: ["IDENTITY_SERVICE_URL"],
    about:
      "Older form of two settings: identityJwksUrl is `/v1/.well-known/jwks.json` below this URL, and identityIssuer is the URL itself.",
  },
  identityJwksUrl: {
    ...unset(),
    parser: identityUrl,
    env: ["IDENTITY_JWKS_URL"],
    about: `Key set of the identity server, ${ofProducers}.`,
  },
  identityIssuer: {
    ...unset(),
    parser: issuer,
    env: ["IDENTITY_ISSUER"],
    about: `Required issuer of tokens, ${ofProducers}.`,
  },
  identityAudience: {
    ...unset(),
    parser: audience,
    env: ["IDENTITY_AUDIENCE"],
    about: `Required audience of tokens, ${ofProducers}.`,
  },
  workerJwksUrl: {
    ...unset(),
    parser: identityUrl,
    env: ["WORKER_JWKS_URL"],
    about: `Key set of the identity server, ${ofWorkers}.`,
  },
  workerIssuer: {
    ...unset(),
    parser: issuer,
    env: ["WORKER_ISSUER"],
    about: `Required issuer of tokens, ${ofWorkers}.`,
  },
  workerAudience: {
    parser: audience,
    initial: "codeq-worker",
    env: ["WORKER_AUDIENCE"],
    about: `Required audience of tokens, ${ofWorkers}.`,
  },
  allowedClockSkewSeconds: {
    ...seconds(0, 600, 60),
    env: ["ALLOWED_CLOCK_SKEW_SECONDS"],
    about: "Tolerated clock difference to an identity server without a clockSkew of its own.",
  },
  allowProducerAsWorker: {
    ...flag(false),
    env: ["ALLOW_PRODUCER_AS_WORKER"],
    about: "Whether the token of a producer also allows claiming and finishing tasks.",
  },
  tenantFallback: {
    parser: choice(["subject", "shared"]),
    initial: "subject",
    about:
      "The tenant of a token without a tenant claim. `subject`: the subject of the token, so that every subject is isolated. `shared`: one tenant named `shared` for all, for a set-up with one tenant whose producers and workers have different subjects.",
  },
  allowRoleHeader: {
    ...flag(false),
    about:
      "Whether the header `X-Role: ADMIN` makes a caller without roles an admin; only if env is `dev`.",
  },
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
    parser: nonEmpty,
    ...unset("none when env is `dev`, otherwise required"),
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
    ...flag(false),
    initialInWords: "false; true if `env` is `dev` and the server listens on loopback only",
    about:
      "Whether webhooks may be sent to loopback, link-local and private addresses. Otherwise a task or subscription with such an address is refused, and a webhook to a name that resolves to one is given up.",
  },
  webhookDisableAfterSeconds: {
    ...seconds(0, yearSeconds, 5 * 86_400),
    about:
      "How long webhooks to an endpoint may fail, without one that is delivered, before it is disabled; 0 never disables it. An endpoint that answers 410 is disabled at once.",
  },
  resultWebhookMaxAttempts: {
    ...count(1, 100, 5),
    env: ["RESULT_WEBHOOK_MAX_ATTEMPTS"],
    about: "Maximum number of tries to deliver a webhook.",
  },
  resultWebhookBaseBackoffSeconds: {
    ...seconds(1, 86_400, 2),
    env: ["RESULT_WEBHOOK_BASE_BACKOFF_SECONDS"],
    about: "Delay after the first failed try of a webhook; it doubles with every further try.",
  },
  resultWebhookMaxBackoffSeconds: {
    ...seconds(1, 86_400, 60),
    env: ["RESULT_WEBHOOK_MAX_BACKOFF_SECONDS"],
    about: "Maximum delay between two tries of a webhook.",
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
  memoryBytes: {
    parser: memorySize,
    initial: 0,
    initialInWords: "the memory limit of the container, or the memory of the machine",
    unit: "bytes",
    about:
      "Memory that the server may use; it decides how much callers can make the server hold at once.",
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
    ...flag(false),
    about:
      "Whether unknown fields and query parameters, and a `workerId` of a result that is not the caller's, are ignored instead of refused, for old clients.",
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
    parser: nonEmpty,
    ...unset(),
    secret: true,
    about:
      "Token that lets callers from other machines see command names in `/metrics`; operators and callers on this machine always see them.",
  },
  metricsPublic: {
    ...flag(true),
    about:
      "Whether callers from other machines may read `/metrics` without a token; they see no command names, and a page that is up to 5 seconds old.",
  },
  console: {
    ...flag(true),
    about: "Whether the server has the web console, at `/`.",
  },
  consoleSecret: {
    parser: text({ accepts: "text that is not empty", example: "..." }),
    ...unset("drawn at every start"),
    secret: true,
    about:
      "Secret that seals the sessions of the console and the tokens for browsers. Servers behind one name need the same " +
      "one; without it, everybody has to sign in again after a restart, and tokens for browsers end.",
  },
  consoleTraceUrl: {
    parser: text({
      accepts: "a URL that begins with http:// or https:// and contains {traceId}",
      example: "https://jaeger.example.com/trace/{traceId}",
      test: (url) => /^https?:\/\/\S*\{traceId\}\S*$/.test(url),
    }),
    ...unset(),
    about: "Where traces can be looked at; the console links the trace of a task to this URL.",
  },
  consoleLoginClientId: {
    ...unset(),
    parser: text({ accepts: "text", example: "codeq-console" }),
    about:
      "Client id of the console at the identity server of producerAuthConfig. With it, people sign in to the console " +
      "there (OpenID Connect, authorization code with PKCE); register `/ui/login/callback` of this server as redirect URI.",
  },
  consoleLoginClientSecret: {
    ...unset(),
    parser: text({ accepts: "text that is not empty", example: "..." }),
    secret: true,
    about: "Secret of that client, if the identity server gave it one.",
  },
  consoleLoginScopes: {
    parser: text({
      accepts: "scopes separated by spaces, openid among them",
      example: "openid codeq:viewer",
      test: (scopes) => scopes.split(" ").includes("openid"),
    }),
    initial: "openid",
    about: "Scopes that the console asks the identity server for.",
  },
  consoleLoginResource: {
    ...unset(),
    parser: text({ accepts: "text", example: "https://codeq.example.com" }),
    about:
      "Resource that the access token is for (RFC 8707), for identity servers that otherwise issue tokens that are " +
      "not signed, or not for the audience of producerAuthConfig.",
  },
  quotas: {
    parser: quotasBlob,
    initial: initialQuotas,
    initialInWords: "none",
    about:
      "Quotas of tenants: a `default` for all tenants and `tenants` by name, each with pendingTasks, storedBytes, requestsPerSecond, concurrentLeases, queues (default: 10,000) and lanes (default: 100,000); 0 means no limit.",
  },
  tracingEnabled: {
    env: ["TRACING_ENABLED"],
    ...flag(false),
    about: "Whether spans of requests, tasks and webhooks are sent to an OpenTelemetry collector.",
  },
  tracingServiceName: {
    env: ["TRACING_SERVICE_NAME", "OTEL_SERVICE_NAME"],
    parser: text({ accepts: "non-empty text", example: "codeq" }),
    initial: "codeq",
    about: "Name of this server in traces (`service.name`).",
  },
  tracingOtlpEndpoint: {
    env: ["TRACING_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"],
    parser: text({
      accepts: "host:port, or a URL that begins with http:// or https://",
      example: "localhost:4317",
      test: (address) => URL.canParse(/^https?:\/\//.test(address) ? address : `http://${address}`),
    }),
    initial: "localhost:4317",
    about:
      "Address of the collector; with `http/protobuf` the server posts spans to its path `/v1/traces`.",
  },
  tracingOtlpProtocol: {
    env: ["OTEL_EXPORTER_OTLP_PROTOCOL"],
    parser: choice(["grpc", "http/protobuf"]),
    initial: "grpc",
    about:
      "Protocol of the collector: OTLP over `grpc`, usually on port 4317, or `http/protobuf`, usually on port 4318.",
  },
  tracingOtlpInsecure: {
    env: ["TRACING_OTLP_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"],
    ...flag(false),
    about: "Whether spans are sent without TLS if tracingOtlpEndpoint has no http:// or https://.",
  },
  tracingOtlpHeaders: {
    env: ["OTEL_EXPORTER_OTLP_HEADERS"],
    parser: pairs("authorization=..."),
    ...unset(),
    secret: true,
    about: "Headers for the collector, as name=value pairs separated by commas.",
  },
  tracingSampleRatio: {
    env: ["TRACING_SAMPLE_RATIO", "OTEL_TRACES_SAMPLER_ARG"],
    parser: share,
    initial: 1,
    about: "Share of traces that are sampled if the caller made no sampling decision.",
  },
  metricsOtlpEnabled: {
    ...flag(false),
    about:
      "Whether the measurements of `/metrics` are also sent to the collector that tracingOtlpEndpoint names.",
  },
  metricsOtlpIntervalSeconds: {
    ...seconds(1, 3600, 60),
    about: "How often the measurements are sent to the collector.",
  },
  tracingResourceAttributes: {
    env: ["OTEL_RESOURCE_ATTRIBUTES"],
    parser: pairs("deployment.region=eu"),
    ...unset(),
    about: "Further attributes of this server in traces, as name=value pairs separated by commas.",
  },
  ...rateLimitSettings,
});

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

/** The variable that every key has; it overrides the variables of the Go server. */
function uniformEnvOf(name: string): string {
  return `CODEQ_${kebabCase(name).replaceAll("-", "_").toUpperCase()}`;
}

export function envNamesOf(name: string, others: readonly string[] = []): readonly string[] {
  return [uniformEnvOf(name), ...others];
}

/** For each secret setting, the variable that names the file with its value. */
export const secretFileVariables: ReadonlyMap<SettingName, string> = new Map(
  settingNames
    .filter((name) => rowOf(name).secret === true)
    .map((name) => [name, `${envNamesOf(name)[0]}_FILE`]),
);

export const configPathFlag = "--config";
export const configPathEnv = "CODEQ_CONFIG_PATH";
