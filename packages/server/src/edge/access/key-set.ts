/**
 * The current keys of one identity server.
 *
 *   empty    no keys that may be used; a token waits for the running fetch
 *   fresh    fetched within the refresh interval
 *   stale    fetching fails; the keys stay in use until they are too old, and then the set is empty
 *
 * A key that is missing in the latest fetch is dropped, and the tokens that it signed are revoked. An unknown key
 * causes a fetch, but at most one per interval, so that clients cannot cause many fetches.
 */

import type { ErrorCode } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import type { JwksProviderConfig } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import { type MaybePromise, whenKnown } from "../../core/maybe-promise.ts";
import type { Job } from "../../core/sweeps/ticker.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { requestText } from "./request-text.ts";
import { readSigningKeys, type SigningKey } from "./signing-keys.ts";
import type { Revocations } from "./token-provider.ts";

/** Rejects if the text cannot be fetched; the reason goes to the log. */
export type FetchKeySet = (url: string, signal: AbortSignal) => Promise<string>;

/** Redirects are not followed, because keys from elsewhere would be trusted like keys from the configured URL. */
export const fetchKeySet: FetchKeySet = async (url, signal) => {
  const { status, text } = await requestText({ url }, signal);
  if (status !== 200) throw new Error(`the answer has the status ${status}`);
  return text;
};

export type KeySetConfig = Pick<
  JwksProviderConfig,
  "jwksUrl" | "httpTimeoutMs" | "refreshMs" | "staleMs" | "refetchMs"
>;

export interface KeySetParts {
  readonly fetchKeySet: FetchKeySet;
  readonly revocations: Revocations;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

export class KeySet implements Disposable {
  /** Called when the time of the next fetch has changed. */
  onPlanned: () => void = () => {};
  readonly #config: KeySetConfig;
  readonly #parts: KeySetParts;
  #keys: readonly SigningKey[] = [];
  /** On the monotonic clock; undefined before the first success. */
  #fetchedMs: number | undefined;
  #isFailing = false;
  #nextFetchMs = 0;
  /** When a token last caused a fetch. */
  #askedMs = Number.NEGATIVE_INFINITY;
  #underWay: Promise<void> | undefined;
  #abort: () => void = () => {};
  #isClosed = false;

  constructor(config: KeySetConfig, parts: KeySetParts) {
    this.#config = config;
    this.#parts = parts;
  }

  /** The key with this id; waits only if the keys have to be fetched. */
  find(kid: string, algorithm: string): MaybePromise<Outcome<SigningKey, ErrorCode>> {
    this.dropTooOld();
    const known = this.#known(kid, algorithm);
    if (known !== undefined) return accept(known);
    return whenKnown(this.#fetchForToken(), () => {
      const fetched = this.#known(kid, algorithm);
      if (fetched !== undefined) return accept(fetched);
      return refuse(this.#isFailing ? "keys_unavailable" : "invalid_token");
    });
  }

  /** The time of the next work, on the monotonic clock. */
  nextMs(): number | undefined {
    if (this.#isClosed) return undefined;
    const fetchMs = this.#underWay === undefined ? this.#nextFetchMs : Number.POSITIVE_INFINITY;
    const nextMs = Math.min(fetchMs, this.#tooOldMs);
    return nextMs === Number.POSITIVE_INFINITY ? undefined : nextMs;
  }

  /** Starts the work that is due, and does not wait for it. */
  work(): void {
    this.dropTooOld();
    if (this.#nextFetchMs <= this.#parts.clock.monotonicMs()) void this.#fetch();
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#abort();
  }

  get #tooOldMs(): number {
    const hasKeys = this.#keys.length > 0 && this.#fetchedMs !== undefined;
    return hasKeys ? (this.#fetchedMs ?? 0) + this.#config.staleMs : Number.POSITIVE_INFINITY;
  }

  /** Keys that could not be confirmed for too long may have been revoked. */
  dropTooOld(): void {
    if (this.#parts.clock.monotonicMs() < this.#tooOldMs) return;
    this.#parts.logger.error(
      "the keys of the identity server are too old; calls with its tokens are refused",
      {
        url: this.#config.jwksUrl,
      },
    );
    this.#replace([]);
  }

  #known(kid: string, algorithm: string): SigningKey | undefined {
    return this.#keys.find((key) => key.kid === kid && key.byAlgorithm.has(algorithm));
  }

  /** At most one fetch per interval, not counting the first; undefined if there was a recent one. */
  #fetchForToken(): MaybePromise<void> {
    if (this.#underWay !== undefined) return this.#underWay;
    if (this.#isClosed) return undefined;
    const isFirst = this.#fetchedMs === undefined && !this.#isFailing;
    if (isFirst) return this.#fetch();
    const nowMs = this.#parts.clock.monotonicMs();
    if (nowMs - this.#askedMs < this.#config.refetchMs) return undefined;
    this.#askedMs = nowMs;
    return this.#fetch();
  }

  #fetch(): Promise<void> {
    this.#underWay ??= this.#fetchOnce().finally(() => {
      this.#underWay = undefined;
      this.onPlanned();
    });
    return this.#underWay;
  }

  async #fetchOnce(): Promise<void> {
    const { clock, logger, metrics } = this.#parts;
    const { refreshMs, refetchMs, jwksUrl: url } = this.#config;
    try {
      const keys = await readSigningKeys(await this.#download());
      if (keys === undefined) throw new Error("the answer is not a key set");
      if (this.#isFailing)
        logger.info("the keys of the identity server can be fetched again", { url });
      if (keys.length === 0) logger.warn("the key set has no usable key", { url });
      this.#isFailing = false;
      this.#fetchedMs = clock.monotonicMs();
      this.#nextFetchMs = this.#fetchedMs + refreshMs;
      this.#replace(keys);
      metrics.keySetFetches.inc("success");
    } catch (error) {
      if (this.#isClosed) return;
      this.#isFailing = true;
      this.#nextFetchMs = clock.monotonicMs() + refetchMs;
      metrics.keySetFetches.inc("failure");
      logger.warn("the keys of the identity server cannot be fetched", {
        url,
        keys: this.#keys.length,
        error: (error as Error).message,
      });
    }
  }

  /** Limited by the clock that is passed in, so that a simulated outage takes simulated time. */
  async #download(): Promise<string> {
    const { clock, fetchKeySet } = this.#parts;
    const { jwksUrl, httpTimeoutMs } = this.#config;
    const controller = new AbortController();
    this.#abort = () => controller.abort();
    const cancel = clock.after(httpTimeoutMs, () => {
      controller.abort(new Error(`no answer within ${httpTimeoutMs} ms`));
    });
    try {
      return await fetchKeySet(jwksUrl, controller.signal);
    } catch (error) {
      throw controller.signal.aborted ? controller.signal.reason : error;
    } finally {
      cancel();
    }
  }

  /** Unchanged keys stay the same objects, so that tokens that they signed stay valid. */
  #replace(fetched: readonly SigningKey[]): void {
    const before = this.#keys;
    this.#keys = fetched.map(
      (key) => before.find(({ material }) => material === key.material) ?? key,
    );
    const gone = before.filter((key) => !this.#keys.includes(key));
    for (const key of gone) key.drop();
    if (gone.length > 0) this.#parts.revocations.announce();
  }
}

/** Fetches the keys of identity servers again before they expire. Nothing waits for a fetch. */
export function refreshKeySets(keySets: readonly KeySet[]): Job {
  return {
    name: "refresh-key-sets",
    nextMs: () => {
      const next = keySets.map((each) => each.nextMs()).filter((ms) => ms !== undefined);
      return next.length === 0 ? undefined : Math.min(...next);
    },
    runOnce: async () => {
      for (const each of keySets) each.work();
    },
  };
}
