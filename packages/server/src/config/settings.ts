/**
 * The types of the configuration. `Settings` has one field per row of the table of settings and is filled by
 * the sources; `Config` is what the rest of the server reads: complete, checked, and with the spellings of
 * the Go server resolved.
 */
import type { Quotas } from "./quotas.ts";
import type { WebhookSecrets } from "./webhook-secrets.ts";

export interface Settings
  extends ArtifactSettings,
    ClusterSettings,
    ConnectionSettings,
    RateLimitSettings,
    StorageSettings,
    TracingSettings {
  readonly port: number;
  readonly host: string;
  readonly workerStreamAddr: string;
  readonly producerStreamAddr: string;
  readonly env: string;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  readonly timezone: string;
  readonly shutdownGraceSeconds: number;
  readonly persistenceProvider: PersistenceProvider;
  readonly persistenceConfig: PersistenceConfig;
  readonly dataDir: string;
  readonly durability: Durability;
  readonly syncIntervalMs: number;
  readonly shards: number;
  readonly minFreeDiskBytes: number;
  readonly retentionSeconds: number;
  readonly dlqRetentionSeconds: number;
  readonly auditRetentionSeconds: number;
  readonly producerAuthProvider: AuthProvider;
  readonly producerAuthConfig: WrittenAuth;
  readonly workerAuthProvider: AuthProvider;
  readonly workerAuthConfig: WrittenAuth;
  readonly identityServiceUrl: string;
  readonly identityJwksUrl: string;
  readonly identityIssuer: string;
  readonly identityAudience: string;
  readonly workerJwksUrl: string;
  readonly workerIssuer: string;
  readonly workerAudience: string;
  readonly allowedClockSkewSeconds: number;
  readonly allowProducerAsWorker: boolean;
  readonly allowRoleHeader: boolean;
  readonly defaultLeaseSeconds: number;
  readonly maxAttemptsDefault: number;
  readonly backoffPolicy: BackoffPolicy;
  readonly backoffBaseSeconds: number;
  readonly backoffMaxSeconds: number;
  readonly webhookHmacSecret: string;
  readonly webhookSecrets: WebhookSecrets;
  readonly webhookAllowPrivateNetworks: boolean;
  readonly webhookDisableAfterSeconds: number;
  readonly resultWebhookMaxAttempts: number;
  readonly resultWebhookBaseBackoffSeconds: number;
  readonly resultWebhookMaxBackoffSeconds: number;
  readonly subscriptionMinIntervalSeconds: number;
  readonly subscriptionCleanupIntervalSeconds: number;
  readonly bodyBytesMax: number;
  readonly payloadBytesMax: number;
  readonly lenientInput: boolean;
  readonly createBatchMax: number;
  readonly claimBatchMax: number;
  readonly resultBatchMax: number;
  readonly metricsCommandsMax: number;
  readonly metricsToken: string;
  readonly console: boolean;
  readonly consoleSecret: string;
  readonly consoleTraceUrl: string;
  readonly consoleLoginClientId: string;
  readonly consoleLoginClientSecret: string;
  readonly consoleLoginScopes: string;
  readonly consoleLoginResource: string;
  readonly quotas: Quotas;
}

/** Empty texts are what a server alone has. */
export interface ClusterSettings {
  readonly clusterMembers: string;
  readonly nodeId: string;
  readonly clusterSecret: string;
  readonly clusterBootstrap: boolean;
  readonly clusterLogBytes: number;
  /** All three or none. */
  readonly clusterTlsCertFile: string;
  readonly clusterTlsKeyFile: string;
  readonly clusterTlsCaFile: string;
  readonly natsUrls: string;
  readonly natsServer: string;
  readonly clusterUrls: string;
}

/** Of all listeners. The files are empty when there are none. */
export interface ArtifactSettings {
  readonly artifactProvider: "local" | "s3";
  readonly localArtifactsDir: string;
  /** Empty when it is not known. */
  readonly externalUrl: string;
  readonly artifactBytesMax: number;
  readonly artifactUploadsMax: number;
  readonly artifactSweepSeconds: number;
  /** Empty for that of AWS. */
  readonly s3Endpoint: string;
  readonly s3Region: string;
  readonly s3Bucket: string;
  readonly s3Prefix: string;
  readonly s3PathStyle: boolean;
  readonly s3AccessKeyId: string;
  readonly s3SecretAccessKey: string;
  readonly s3SessionToken: string;
  readonly s3Redirect: boolean;
}

export interface ConnectionSettings {
  readonly tlsCertFile: string;
  readonly tlsKeyFile: string;
  readonly tlsClientCaFile: string;
  readonly tlsClientAuth: ClientAuth;
  readonly insecure: boolean;
  readonly connectionsMax: number;
  readonly headersTimeoutSeconds: number;
  readonly requestTimeoutSeconds: number;
  readonly keepAliveSeconds: number;
  readonly headerBytesMax: number;
  readonly streamsPerConnectionMax: number;
  readonly streamsMax: number;
}

/** What decides how much a sweep does, and when. */
export type SweepConfig = Pick<StorageSettings, "sweepBatchMax" | "retentionSweepSeconds">;

/** Of each shard. */
export interface StorageSettings {
  readonly backupDir: string;
  readonly lsmCacheBytes: number;
  readonly lsmWriteBufferBytes: number;
  readonly flushBytes: number;
  readonly sweepBatchMax: number;
  readonly retentionSweepSeconds: number;
  readonly scrubIntervalSeconds: number;
}

export interface TracingSettings {
  readonly metricsOtlpEnabled: boolean;
  readonly metricsOtlpIntervalSeconds: number;
  readonly tracingEnabled: boolean;
  readonly tracingServiceName: string;
  readonly tracingOtlpEndpoint: string;
  readonly tracingOtlpProtocol: OtlpProtocol;
  readonly tracingOtlpInsecure: boolean;
  readonly tracingOtlpHeaders: string;
  readonly tracingSampleRatio: number;
  readonly tracingResourceAttributes: string;
}

export type RateScope = "producer" | "worker" | "admin" | "webhook";
export type RateLimitField =
  | "requestsPerMinute"
  | "burstSize"
  | "tenantRequestsPerMinute"
  | "tenantBurstSize";
export type RateLimitSetting = `rateLimit.${RateScope}.${RateLimitField}`;
type RateLimitSettings = { readonly [K in RateLimitSetting]: number };

export type SettingName = keyof Settings;
type BlobKey = "persistenceConfig" | "producerAuthConfig" | "workerAuthConfig";

export interface Config extends Omit<Settings, BlobKey> {
  /** Who vouches for those that create tasks and administer; never empty. */
  readonly producerAuth: readonly ProviderConfig[];
  /** Who vouches for those that work; empty only when `allowProducerAsWorker` is on. */
  readonly workerAuth: readonly ProviderConfig[];
  /** Where the value of each key came from, in words: `default`, `environment variable PORT`. */
  readonly sources: Readonly<Record<SettingName, string>>;
}

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFormat = "json" | "text";
export type PersistenceProvider = "embedded" | "memory";
export type Durability = "fsync" | "interval" | "os";
export type OtlpProtocol = "grpc" | "http/protobuf";
export type ClientAuth = "required" | "optional";
export type AuthProvider = "static" | "jwks" | "multi";
export type BackoffPolicy =
  | "fixed"
  | "linear"
  | "exponential"
  | "exp_equal_jitter"
  | "exp_full_jitter";

export type ProviderConfig = StaticProviderConfig | JwksProviderConfig;

export interface StaticProviderConfig {
  readonly type: "static";
  readonly tokens: readonly StaticTokenConfig[];
}

/** An identity server whose signatures are believed. */
export interface JwksProviderConfig {
  readonly type: "jwks";
  readonly jwksUrl: string;
  readonly issuer: string;
  readonly audience: string;
  /** How far the clocks of this server and of the issuer may be apart. */
  readonly clockSkewMs: number;
  readonly httpTimeoutMs: number;
  /** How often the keys are fetched when all is well. */
  readonly refreshMs: number;
  /** How long after the last successful fetch keys are still used. */
  readonly staleMs: number;
  /** The least time between two fetches for keys that are not known. */
  readonly refetchMs: number;
}

/** An auth config as it was written; it may leave the clock skew to the key of its own. */
export interface WrittenAuth {
  readonly shape: AuthProvider;
  readonly providers: readonly WrittenProvider[];
}

export type WrittenProvider = StaticProviderConfig | WrittenJwks;
export type WrittenJwks = Omit<JwksProviderConfig, "clockSkewMs"> & {
  readonly clockSkewMs: number | undefined;
};

/** One accepted bearer token and the identity that it stands for. */
export interface StaticTokenConfig {
  readonly token: string;
  readonly subject: string;
  readonly email: string;
  readonly scopes: readonly string[];
  readonly eventTypes: readonly string[];
  /** Further claims, as a JWT would carry them; role and tenant are read from here. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** The older spelling of `dataDir`, `durability` and `shards`; only what was written is present. */
export interface PersistenceConfig {
  readonly path?: string;
  readonly fsyncOnCommit?: boolean;
  readonly numShards?: number;
}
