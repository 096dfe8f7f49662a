/**
 * The tokens of one kind of callers: several providers, asked in turn, and what they accepted lately.
 * A token that is known costs one hash. What is known of it ends when it expires, when it is revoked,
 * or when too many others came after it. Refusals are not kept, so nobody can push out good tokens
 * with bad ones.
 */
import type { ErrorCode } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import {
  type Claims,
  type Soon,
  type TokenProvider,
  type Verified,
  whenKnown,
} from "./token-provider.ts";

interface Accepted<Bearer> {
  readonly outcome: Outcome<Bearer, ErrorCode>;
  readonly expiresMs: number | undefined;
  readonly isRevoked: () => boolean;
}

export class AcceptedTokens<Bearer> {
  readonly #providers: readonly TokenProvider[];
  readonly #bearerOf: (claims: Claims) => Bearer;
  readonly #clock: Clock;
  readonly #tokensMax: number;
  readonly #accepted: Map<string, Accepted<Bearer>> = new Map();
  /** So that a token which many calls bring at once is verified once. */
  readonly #underWay: Map<string, Promise<Outcome<Bearer, ErrorCode>>> = new Map();

  constructor(parts: {
    readonly providers: readonly TokenProvider[];
    /** What a token stands for, once for all of its uses. */
    readonly bearerOf: (claims: Claims) => Bearer;
    readonly clock: Clock;
    readonly tokensMax: number;
  }) {
    this.#providers = parts.providers;
    this.#bearerOf = parts.bearerOf;
    this.#clock = parts.clock;
    this.#tokensMax = parts.tokensMax;
  }

  find(token: string, fingerprint: string): Soon<Outcome<Bearer, ErrorCode>> {
    const known = this.#accepted.get(fingerprint);
    if (known !== undefined) {
      if (isPast(known.expiresMs, this.#clock.nowMs())) return refuse("token_expired");
      if (!known.isRevoked()) return known.outcome;
      this.#accepted.delete(fingerprint);
    }
    const underWay = this.#underWay.get(fingerprint);
    if (underWay !== undefined) return underWay;
    const outcome = whenKnown(this.#verify(token, 0), (verified) =>
      this.#remember(fingerprint, verified),
    );
    if (!(outcome instanceof Promise)) return outcome;
    const done = outcome.finally(() => this.#underWay.delete(fingerprint));
    this.#underWay.set(fingerprint, done);
    return done;
  }

  /** The first that accepts decides; of the refusals, the one that tells most. */
  #verify(
    token: string,
    first: number,
    refusal: Verified = refuse("invalid_token"),
  ): Soon<Verified> {
    const provider = this.#providers[first];
    if (provider === undefined) return refusal;
    return whenKnown(provider.verify(token), (verified) =>
      verified.ok ? verified : this.#verify(token, first + 1, moreTelling(refusal, verified)),
    );
  }

  #remember(fingerprint: string, verified: Verified): Outcome<Bearer, ErrorCode> {
    if (!verified.ok) return verified;
    const { expiresMs, isRevoked } = verified.value;
    if (isPast(expiresMs, this.#clock.nowMs())) return refuse("token_expired");
    // Taken back while it was being verified.
    if (isRevoked()) return refuse("invalid_token");
    const outcome = accept(this.#bearerOf(verified.value));
    this.#accepted.set(fingerprint, { outcome, expiresMs, isRevoked });
    if (this.#accepted.size > this.#tokensMax) {
      const [oldest] = this.#accepted.keys();
      this.#accepted.delete(oldest as string);
    }
    return outcome;
  }
}

function isPast(expiresMs: number | undefined, nowMs: number): boolean {
  return expiresMs !== undefined && expiresMs <= nowMs;
}

/** From what any provider says of a token it never saw to what only its own provider can say. */
const vague: readonly ErrorCode[] = ["invalid_token", "invalid_issuer"];

export function moreTelling<T extends { readonly ok: boolean }>(first: T, second: T): T {
  return rankOf(second) > rankOf(first) ? second : first;
}

function rankOf(outcome: { readonly ok: boolean; readonly code?: ErrorCode }): number {
  const rank = outcome.code === undefined ? -1 : vague.indexOf(outcome.code);
  return rank < 0 ? vague.length : rank;
}
