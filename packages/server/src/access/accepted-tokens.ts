/**
 * The tokens of one kind of caller: which providers verify them, in turn, and which tokens were accepted
 * recently. A known token costs one hash. An entry ends when the token expires, is revoked, or is evicted by
 * newer ones. Refusals are not cached, so bad tokens cannot evict good ones.
 */
import type { ErrorCode } from "@codeq/protocol";
import { refuse } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import { type MaybePromise, whenKnown } from "../maybe-promise.ts";
import type { Authenticated } from "./identity-of.ts";
import type { Claims, TokenProvider } from "./token-provider.ts";

/** A provider, and who the bearers of its tokens are to callers of this kind. */
export interface Voucher {
  readonly provider: TokenProvider;
  readonly identityOf: (claims: Claims) => Authenticated;
}

export interface AcceptedTokensParts {
  /** The first that accepts a token decides. */
  readonly vouchers: readonly Voucher[];
  readonly clock: Clock;
  readonly tokensMax: number;
}

export class AcceptedTokens {
  readonly #vouchers: readonly Voucher[];
  readonly #clock: Clock;
  readonly #tokensMax: number;
  readonly #accepted: Map<string, Authenticated> = new Map();
  /** So that a token which many calls bring at once is verified once. */
  readonly #underWay: Map<string, Promise<Authenticated>> = new Map();

  constructor({ vouchers, clock, tokensMax }: AcceptedTokensParts) {
    this.#vouchers = vouchers;
    this.#clock = clock;
    this.#tokensMax = tokensMax;
  }

  /** Whose token it is; at once when it is known. */
  find(token: string, fingerprint: string): MaybePromise<Authenticated> {
    const known = this.#accepted.get(fingerprint);
    if (known?.ok === true) {
      const { expiresMs, isRevoked } = known.value;
      if (expiresMs !== undefined && expiresMs <= this.#clock.nowMs()) {
        return refuse("token_expired");
      }
      if (!isRevoked()) return known;
      this.#accepted.delete(fingerprint);
    }
    return this.#underWay.get(fingerprint) ?? this.#verify(token, fingerprint);
  }

  #verify(token: string, fingerprint: string): MaybePromise<Authenticated> {
    const outcome = whenKnown(this.#ask(token, 0, refuse("invalid_token")), (verified) => {
      if (verified.ok) this.#remember(fingerprint, verified);
      return verified;
    });
    if (!(outcome instanceof Promise)) return outcome;
    const done = outcome.finally(() => this.#underWay.delete(fingerprint));
    this.#underWay.set(fingerprint, done);
    return done;
  }

  /** Asks one after the other; of the refusals, the one that tells most is left. */
  #ask(token: string, index: number, refusal: Authenticated): MaybePromise<Authenticated> {
    const voucher = this.#vouchers[index];
    if (voucher === undefined) return refusal;
    return whenKnown(voucher.provider.verify(token), (verified) => {
      const outcome = verified.ok ? this.#admit(voucher, verified.value) : verified;
      return outcome.ok ? outcome : this.#ask(token, index + 1, moreTelling(refusal, outcome));
    });
  }

  #admit({ identityOf }: Voucher, claims: Claims): Authenticated {
    const { expiresMs, isRevoked } = claims;
    if (expiresMs !== undefined && expiresMs <= this.#clock.nowMs()) return refuse("token_expired");
    // Taken back while it was being verified.
    return isRevoked() ? refuse("invalid_token") : identityOf(claims);
  }

  #remember(fingerprint: string, identity: Authenticated): void {
    this.#accepted.set(fingerprint, identity);
    if (this.#accepted.size <= this.#tokensMax) return;
    const [oldest] = this.#accepted.keys();
    this.#accepted.delete(oldest as string);
  }
}

/** From what any provider says of a token it never saw to what only its own provider can say. */
const vague: readonly ErrorCode[] = ["invalid_token", "invalid_issuer"];

function moreTelling(first: Authenticated, second: Authenticated): Authenticated {
  return rankOf(second) > rankOf(first) ? second : first;
}

function rankOf(outcome: Authenticated): number {
  const rank = outcome.ok ? -1 : vague.indexOf(outcome.code);
  return rank < 0 ? vague.length : rank;
}
