/**
 * From a bearer token to an identity, for each of the ways a route may be protected. Tokens are
 * checked before a body is read, and a token that was accepted before without waiting.
 */
import { type ErrorCode, limits } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import { AcceptedTokens, moreTelling } from "./accepted-tokens.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { Identity } from "./identity.ts";
import { type Authenticated, type Bearer, producerOf, workerOf } from "./identity-of.ts";
import type { Revocations } from "./revocations.ts";
import { type Soon, type TokenProvider, whenKnown } from "./token-provider.ts";

export type AccessKind = "producer" | "worker" | "either" | "admin" | "operator";

/** For each of the two kinds of callers. */
const acceptedTokensMax = 10_000;

/** The token of an Authorization header; the scheme is compared without case. */
export function bearerToken(authorization: string | undefined): Outcome<string, ErrorCode> {
  if (authorization === undefined || authorization === "") return refuse("missing_authorization");
  const token = /^bearer (.+)$/i.exec(authorization)?.[1]?.trim();
  return token === undefined || token === "" ? refuse("invalid_authorization") : accept(token);
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
  readonly #producers: AcceptedTokens<Bearer>;
  readonly #workers: AcceptedTokens<Bearer>;
  readonly #allowProducerAsWorker: boolean;
  readonly #revocations: Revocations;

  constructor(parts: AuthenticatorParts) {
    const { clock, producers, workers } = parts;
    const common = { clock, tokensMax: acceptedTokensMax };
    this.#producers = new AcceptedTokens({ ...common, providers: producers, bearerOf: producerOf });
    this.#workers = new AcceptedTokens({ ...common, providers: workers, bearerOf: workerOf });
    this.#allowProducerAsWorker = parts.allowProducerAsWorker;
    this.#revocations = parts.revocations;
  }

  /** Refuses a token that is unknown, has expired or does not fit the kind of caller. */
  authenticate(kind: AccessKind, token: string): Soon<Authenticated> {
    if (token.length > limits.tokenCharsMax) return refuse("invalid_token");
    const fingerprint = fingerprintOf(token);
    switch (kind) {
      case "producer":
      case "admin":
      case "operator":
        return whenKnown(this.#producers.find(token, fingerprint), identityOf);
      case "worker":
        return this.#worker(token, fingerprint);
      case "either":
        return this.#reader(token, fingerprint);
    }
  }

  /** Calls back once, when the identity's token is revoked; returns how to stop watching. */
  watch(identity: Identity, onRevoked: () => void): () => void {
    return this.#revocations.watch(identity, onRevoked);
  }

  #worker(token: string, fingerprint: string): Soon<Authenticated> {
    return whenKnown(this.#workers.find(token, fingerprint), (bearer) => {
      const worker = bearer.ok ? bearer.value.worker : bearer;
      if (worker.ok || !this.#allowProducerAsWorker) return worker;
      return whenKnown(this.#producers.find(token, fingerprint), (producer) =>
        producer.ok ? producer.value.worker : moreTelling(worker, producer),
      );
    });
  }

  /** Readers need no scope: a worker that may do anything at all, or a producer. */
  #reader(token: string, fingerprint: string): Soon<Authenticated> {
    return whenKnown(this.#workers.find(token, fingerprint), (worker) => {
      const isWorker = worker.ok && isForSomething(worker.value);
      if (isWorker) return worker.value.identity;
      const refusal: Authenticated = worker.ok ? refuse("invalid_token") : worker;
      return whenKnown(this.#producers.find(token, fingerprint), (producer) =>
        producer.ok ? producer.value.identity : moreTelling(refusal, producer),
      );
    });
  }
}

function identityOf(bearer: Outcome<Bearer, ErrorCode>): Authenticated {
  return bearer.ok ? bearer.value.identity : bearer;
}

function isForSomething({ worker }: Bearer): boolean {
  return worker.ok || worker.code !== "missing_event_types";
}
