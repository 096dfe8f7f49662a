/**
 * The types of the configuration. `Settings` has one field per row of the table of settings and is filled by
 * the sources; `Config` is what the rest of the server reads: complete, checked, and with the spellings of
 * the Go server resolved.
 */
import type { SettingRow, settingTable } from "./setting-table.ts";

export type SettingName = keyof typeof settingTable;
export type Settings = {
  readonly [K in SettingName]: (typeof settingTable)[K] extends SettingRow<infer T> ? T : never;
};
type BlobKey = "persistenceConfig" | "producerAuthConfig" | "workerAuthConfig";

export interface Config extends Omit<Settings, BlobKey> {
  /** The providers of tokens of producers and administrators; never empty. */
  readonly producerAuth: readonly ProviderConfig[];
  /** The providers of tokens of workers; empty only if `allowProducerAsWorker` is on. */
  readonly workerAuth: readonly ProviderConfig[];
  /** Where the value of each key came from, in words: `default`, `environment variable PORT`. */
  readonly sources: Readonly<Record<SettingName, string>>;
}

/** What an acknowledgement means on this server, as health, log and console say it. */
export function shownDurability(config: Config): Config["durability"] | "memory" {
  return config.persistenceProvider === "memory" ? "memory" : config.durability;
}

/** The size and the interval of sweeps. */
export type SweepConfig = Pick<Config, "sweepBatchMax" | "retentionSweepSeconds">;

export type ProviderConfig = StaticProviderConfig | JwksProviderConfig;

export interface StaticProviderConfig {
  readonly type: "static";
  readonly tokens: readonly StaticTokenConfig[];
}

/** An identity server whose tokens are accepted. */
export interface JwksProviderConfig {
  readonly type: "jwks";
  readonly jwksUrl: string;
  readonly issuer: string;
  readonly audience: string;
  /** The tolerated difference between the clocks of this server and of the issuer. */
  readonly clockSkewMs: number;
  readonly httpTimeoutMs: number;
  /** How often the keys are fetched while fetches succeed. */
  readonly refreshMs: number;
  /** How long after the last successful fetch keys are still used. */
  readonly staleMs: number;
  /** The minimum time between two fetches that unknown keys cause. */
  readonly refetchMs: number;
}

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
