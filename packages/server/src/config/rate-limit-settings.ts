/**
 * The settings of rate limits: for each scope one bucket per token and one per tenant. A limit is in force
 * when both of its numbers are set.
 */

import { wholeNumber } from "./parsers.ts";
import type { SettingRow } from "./setting-row.ts";
import type { RateLimitField, RateLimitSetting, RateScope } from "./settings.ts";

/** What counts in each scope. */
const scopes: readonly (readonly [RateScope, string])[] = [
  ["producer", "tasks created"],
  ["worker", "tasks claimed, and claims that find none"],
  ["admin", "clean-ups"],
  ["webhook", "result callbacks sent"],
];

const perMinuteMax = 60_000_000;
const burstMax = 10_000_000;

const none = "0 is no limit";

function fieldsOf(
  scope: RateScope,
  what: string,
): readonly (readonly [RateLimitField, number, string])[] {
  const one = scope === "webhook" ? "to one URL" : "by one subject";
  return [
    ["requestsPerMinute", perMinuteMax, `How many ${what} ${one} a minute, on average; ${none}.`],
    ["burstSize", burstMax, `How many ${what} ${one} at once; ${none}.`],
    [
      "tenantRequestsPerMinute",
      perMinuteMax,
      `How many ${what} by one tenant a minute, on average; ${none}.`,
    ],
    ["tenantBurstSize", burstMax, `How many ${what} by one tenant at once; ${none}.`],
  ];
}

const rows = scopes.flatMap(([scope, what]) =>
  fieldsOf(scope, what).map(([field, max, about]): [RateLimitSetting, SettingRow<number>] => [
    `rateLimit.${scope}.${field}`,
    { env: [variableOf(scope, field)], parser: wholeNumber(0, max, 100), initial: 0, about },
  ]),
);

function variableOf(scope: RateScope, field: RateLimitField): string {
  const words = field.replace(/[A-Z]/g, (letter) => `_${letter}`);
  return `RATE_LIMIT_${scope}_${words}`.toUpperCase();
}

/** The loops above go through every scope and every field. */
export const rateLimitSettings = Object.fromEntries(rows) as {
  readonly [K in RateLimitSetting]: SettingRow<number>;
};

/** The two numbers of every limit: its rate and its burst. */
export const rateLimitPairs: readonly (readonly [RateLimitSetting, RateLimitSetting])[] =
  scopes.flatMap(([scope]) => [
    [`rateLimit.${scope}.requestsPerMinute`, `rateLimit.${scope}.burstSize`] as const,
    [`rateLimit.${scope}.tenantRequestsPerMinute`, `rateLimit.${scope}.tenantBurstSize`] as const,
  ]);
