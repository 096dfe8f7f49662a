/**
 * The settings of rate limits: for each scope one bucket per token and one per tenant. A limit is in force
 * when both of its numbers are set.
 */
import { wholeNumber } from "./parsers.ts";
import type { SettingRow } from "./setting-table.ts";

/** What counts in each scope. */
const counted = {
  producer: "tasks created",
  worker: "tasks claimed, and claims that find none",
  admin: "clean-ups",
  webhook: "webhooks sent",
};

export type RateScope = keyof typeof counted;
type RateLimitField =
  | "requestsPerMinute"
  | "burstSize"
  | "tenantRequestsPerMinute"
  | "tenantBurstSize";
export type RateLimitSetting = `rateLimit.${RateScope}.${RateLimitField}`;

export const rateScopes: readonly RateScope[] = Object.keys(counted) as RateScope[];

const perMinuteMax = 60_000_000;
const burstMax = 10_000_000;

function fieldsOf(scope: RateScope): readonly (readonly [RateLimitField, number, string])[] {
  const one = scope === "webhook" ? "to one URL" : "by one subject";
  return [
    ["requestsPerMinute", perMinuteMax, `${one} a minute, on average`],
    ["burstSize", burstMax, `${one} at once`],
    ["tenantRequestsPerMinute", perMinuteMax, "by one tenant a minute, on average"],
    ["tenantBurstSize", burstMax, "by one tenant at once"],
  ];
}

const rows = rateScopes.flatMap((scope) =>
  fieldsOf(scope).map(([field, max, by]): [RateLimitSetting, SettingRow<number>] => [
    `rateLimit.${scope}.${field}`,
    {
      env: [variableOf(scope, field)],
      parser: wholeNumber(0, max, 100),
      initial: 0,
      about: `How many ${counted[scope]} ${by}; 0 is no limit.`,
    },
  ]),
);

function variableOf(scope: RateScope, field: RateLimitField): string {
  const words = field.replace(/[A-Z]/g, (letter) => `_${letter}`);
  return `RATE_LIMIT_${scope}_${words}`.toUpperCase();
}

/** The loops above create a row for every scope and every field. */
export const rateLimitSettings = Object.fromEntries(rows) as {
  readonly [K in RateLimitSetting]: SettingRow<number>;
};

/** The two numbers of every limit: its rate and its burst. */
export const rateLimitPairs: readonly (readonly [RateLimitSetting, RateLimitSetting])[] =
  rateScopes.flatMap((scope) => [
    [`rateLimit.${scope}.requestsPerMinute`, `rateLimit.${scope}.burstSize`] as const,
    [`rateLimit.${scope}.tenantRequestsPerMinute`, `rateLimit.${scope}.tenantBurstSize`] as const,
  ]);
