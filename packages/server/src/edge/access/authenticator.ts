/**
 * From a bearer token to an identity, for each way in which a route can be protected. A token is checked
 * before the body is read; a token that was accepted recently is checked without waiting.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import type { Clock } from "../../core/clock.ts";
import { type MaybePromise, whenKnown } from "../../core/maybe-promise.ts";
import {
  type Authenticated,
  type Identity,
  producerAsWorkerOf,
  producerOf,
  readerOf,
  type TenantFallback,
  workerOf,
} from "./identity.ts";
import {
  type Claims,
  fingerprintOf,
  type Revocations,
  type TokenProvider,
} from "./token-provider.ts";

/** `viewer`: what admins and viewers may read. */
export type AccessKind = "producer" | "worker" | "either" | "viewer" | "admin" | "operator";

/** Whether an operator may name another tenant in a call. */
export function isForAdmins(kind: AccessKind): boolean {
  return kind === "viewer" || kind === "admin" || kind === "operator";
}

/** For each kind of caller. */
const acceptedTokensMax = 10_000;

const scheme = "bearer ";

/** The token of an Authorization header; the scheme is compared without case. */
export function bearerToken(authorization: string | undefined): Outcome<string, ErrorCode> {
  if (authorization === undefined || authorization === "") return refuse("missing_authorization");
  const isBearer = authorization.slice(0, scheme.length).toLowerCase() === scheme;
  const token = isBearer ? authorization.slice(scheme.length).trim() : "";
  return token === "" ? refuse("invalid_authorization") : accept(token);
}

export interface AuthenticatorParts {
  /** The providers are asked in this order; the first that accepts a token decides. */
  readonly producers: readonly TokenProvider[];
  readonly workers: readonly TokenProvider[];
  readonly allowProducerAsWorker: boolean;
  readonly tenantFallback: TenantFallback;
  readonly revocations: Revocations;
  readonly clock: Clock;
}

export class Authenticator {
  readonly #producers: AcceptedTokens;
  readonly #workers: AcceptedTokens;
  readonly #readers: AcceptedTokens;
  readonly #revocations: Revocations;

  constructor(parts: AuthenticatorParts) {
    const { clock, producers, workers, allowProducerAsWorker, tenantFallback } = parts;
    const sources = (of: readonly TokenProvider[], identityOf: typeof producerOf) =>
      of.map((provider) => ({
        provider,
        identityOf: (claims: Claims) => identityOf(claims, tenantFallback),
      }));
    const tokensOf = (...lists: readonly TokenSource[][]): AcceptedTokens =>
      new AcceptedTokens({ sources: lists.flat(), clock, tokensMax: acceptedTokensMax });
    this.#producers = tokensOf(sources(producers, producerOf));
    this.#workers = tokensOf(
      sources(workers, workerOf),
      allowProducerAsWorker ? sources(producers, producerAsWorkerOf) : [],
    );
    this.#readers = tokensOf(sources(workers, readerOf), sources(producers, producerOf));
    this.#revocations = parts.revocations;
  }

  /** Refuses a token that is unknown, has expired or does not fit the kind of caller. */
  authenticate(kind: AccessKind, token: string): MaybePromise<Authenticated> {
    if (token.length > limits.tokenCharsMax) return refuse("invalid_token");
    return this.#tokensOf(kind).find(token, fingerprintOf(token));
  }

  /** Calls back once, when the identity's token is revoked; returns how to stop watching. */
  watch(identity: Identity, onRevoked: () => void): () => void {
    return this.#revocations.watch(identity, onRevoked);
  }

  #tokensOf(kind: AccessKind): AcceptedTokens {
    switch (kind) {
      case "producer":
      case "viewer":
      case "admin":
      case "operator":
        return this.#producers;
      case "worker":
        return this.#workers;
      case "either":
        return this.#readers;
    }
  }
}

/** A provider, and how its claims become an identity for this kind of caller. */
interface TokenSource {
  readonly provider: TokenProvider;
  readonly identityOf: (claims: Claims) => Authenticated;
}

interface AcceptedTokensParts {
  /** The first that accepts a token decides. */
  readonly sources: readonly TokenSource[];
  readonly clock: Clock;
  readonly tokensMax: number;
}

/**
 * The tokens of one kind of caller: which providers verify them, in turn, and which tokens were accepted
 * recently. A known token costs one hash. An entry ends when the token expires, is revoked, or is evicted by
 * newer ones. Refusals are not cached, so bad tokens cannot evict good ones.
 */
export class AcceptedTokens {
  readonly #sources: readonly TokenSource[];
  readonly #clock: Clock;
  readonly #tokensMax: number;
  readonly #accepted: Map<string, Authenticated> = new Map();
  /** Verifications in progress, so that a token of many simultaneous calls is verified once. */
  readonly #underWay: Map<string, Promise<Authenticated>> = new Map();

  constructor({ sources, clock, tokensMax }: AcceptedTokensParts) {
    this.#sources = sources;
    this.#clock = clock;
    this.#tokensMax = tokensMax;
  }

  /** The identity of the token; without waiting if the token was accepted recently. */
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

  /** Asks one provider after the other, and returns the most specific refusal. */
  #ask(token: string, index: number, refusal: Authenticated): MaybePromise<Authenticated> {
    const source = this.#sources[index];
    if (source === undefined) return refusal;
    return whenKnown(source.provider.verify(token), (verified) => {
      const outcome = verified.ok ? this.#admit(source, verified.value) : verified;
      return outcome.ok ? outcome : this.#ask(token, index + 1, moreSpecific(refusal, outcome));
    });
  }

  #admit({ identityOf }: TokenSource, claims: Claims): Authenticated {
    const { expiresMs, isRevoked } = claims;
    if (expiresMs !== undefined && expiresMs <= this.#clock.nowMs()) return refuse("token_expired");
    // The token was revoked while it was being verified.
    return isRevoked() ? refuse("invalid_token") : identityOf(claims);
  }

  #remember(fingerprint: string, identity: Authenticated): void {
    this.#accepted.set(fingerprint, identity);
    if (this.#accepted.size <= this.#tokensMax) return;
    const [oldest] = this.#accepted.keys();
    this.#accepted.delete(oldest as string);
  }
}

/** Refusals of providers that do not know the token, from the least to the most specific. */
const vague: readonly ErrorCode[] = ["invalid_token", "invalid_issuer"];

function moreSpecific(first: Authenticated, second: Authenticated): Authenticated {
  return rankOf(second) > rankOf(first) ? second : first;
}

function rankOf(outcome: Authenticated): number {
  const rank = outcome.ok ? -1 : vague.indexOf(outcome.code);
  return rank < 0 ? vague.length : rank;
}
