/**
 * From a bearer token to an identity, for each way in which a route can be protected. A token is checked
 * before the body is read; a token that was accepted recently is checked without waiting.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { MaybePromise } from "../maybe-promise.ts";
import { AcceptedTokens, type Voucher } from "./accepted-tokens.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { Identity } from "./identity.ts";
import {
  type Authenticated,
  producerAsWorkerOf,
  producerOf,
  readerOf,
  workerOf,
} from "./identity-of.ts";
import type { Revocations } from "./revocations.ts";
import type { TokenProvider } from "./token-provider.ts";

/** `viewer` is what admins and viewers may look at. */
export type AccessKind = "producer" | "worker" | "either" | "viewer" | "admin" | "operator";

/** Whether an operator may name another tenant in a call. */
export function isForAdmins(kind: AccessKind): boolean {
  return kind === "viewer" || kind === "admin" || kind === "operator";
}

/** For each kind of callers. */
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
  /** Asked in turn; the first that accepts a token decides. */
  readonly producers: readonly TokenProvider[];
  readonly workers: readonly TokenProvider[];
  readonly allowProducerAsWorker: boolean;
  readonly revocations: Revocations;
  readonly clock: Clock;
}

export class Authenticator {
  readonly #producers: AcceptedTokens;
  readonly #workers: AcceptedTokens;
  readonly #readers: AcceptedTokens;
  readonly #revocations: Revocations;

  constructor(parts: AuthenticatorParts) {
    const { clock, producers, workers, allowProducerAsWorker } = parts;
    const vouchers = (of: readonly TokenProvider[], identityOf: Voucher["identityOf"]) =>
      of.map((provider) => ({ provider, identityOf }));
    const tokensOf = (...lists: readonly Voucher[][]): AcceptedTokens =>
      new AcceptedTokens({ vouchers: lists.flat(), clock, tokensMax: acceptedTokensMax });
    this.#producers = tokensOf(vouchers(producers, producerOf));
    this.#workers = tokensOf(
      vouchers(workers, workerOf),
      allowProducerAsWorker ? vouchers(producers, producerAsWorkerOf) : [],
    );
    this.#readers = tokensOf(vouchers(workers, readerOf), vouchers(producers, producerOf));
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
