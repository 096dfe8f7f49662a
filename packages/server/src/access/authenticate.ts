/**
 * From a bearer token to an identity, for each of the ways a route may be protected. Tokens are
 * checked before a body is read.
 */
import type { ErrorCode } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { Config, StaticTokenConfig } from "../config/settings.ts";
import { adminScope, anyEventType, type Identity, workerScopes } from "./identity.ts";
import { StaticTokens } from "./static-token.ts";
import { tenantOf } from "./tenant.ts";
import { workerIdOf } from "./worker-id.ts";

export type AccessKind = "producer" | "worker" | "either" | "admin";

type Authenticated = Outcome<Identity, ErrorCode>;

type AccessConfig = Pick<Config, "producerAuth" | "workerAuth" | "allowProducerAsWorker">;

/** The token of an Authorization header; the scheme is compared without case. */
export function bearerToken(authorization: string | undefined): Outcome<string, ErrorCode> {
  if (authorization === undefined || authorization === "") return refuse("missing_authorization");
  const token = /^bearer (.+)$/i.exec(authorization)?.[1]?.trim();
  return token === undefined || token === "" ? refuse("invalid_authorization") : accept(token);
}

export class Authenticator {
  readonly #producers: StaticTokens<KnownToken>;
  readonly #workers: StaticTokens<KnownToken>;
  readonly #allowProducerAsWorker: boolean;
  readonly #clock: Clock;

  constructor(config: AccessConfig, clock: Clock) {
    this.#clock = clock;
    this.#producers = new StaticTokens(config.producerAuth, know);
    this.#workers = new StaticTokens(config.workerAuth, know);
    this.#allowProducerAsWorker = config.allowProducerAsWorker;
  }

  /** Refuses a token that is unknown, has expired or does not fit the kind of caller. */
  authenticate(kind: AccessKind, token: string): Promise<Authenticated> {
    const outcome = this.#identify(kind, token);
    const isExpired = outcome.ok && isPast(outcome.value.expiresMs, this.#clock.nowMs());
    return Promise.resolve(isExpired ? refuse("token_expired") : outcome);
  }

  #identify(kind: AccessKind, token: string): Authenticated {
    switch (kind) {
      case "producer":
        return this.#producer(token);
      case "admin": {
        const producer = this.#producer(token);
        return producer.ok && !producer.value.isAdmin ? refuse("admin_only") : producer;
      }
      case "worker":
        return this.#worker(token);
      case "either":
        return this.#reader(token);
    }
  }

  #producer(token: string): Authenticated {
    const found = this.#producers.find(token);
    return found === undefined ? refuse("invalid_token") : found.identity;
  }

  #worker(token: string): Authenticated {
    const found = this.#workers.find(token);
    if (found !== undefined) {
      if (found.token.eventTypes.length === 0) return refuse("missing_event_types");
      if (found.token.scopes.length === 0) return refuse("missing_worker_scope");
      return found.identity;
    }
    if (!this.#allowProducerAsWorker) return refuse("invalid_token");
    const producer = this.#producer(token);
    if (!producer.ok) return producer;
    const scopes = new Set([...producer.value.scopes, ...workerScopes]);
    return accept({ ...producer.value, scopes, eventTypes: [anyEventType] });
  }

  /** Readers need no scope: a worker that may do anything at all, or a producer. */
  #reader(token: string): Authenticated {
    const worker = this.#workers.find(token);
    if (worker !== undefined && worker.token.eventTypes.length > 0) return worker.identity;
    return this.#producer(token);
  }
}

interface KnownToken {
  readonly token: StaticTokenConfig;
  readonly identity: Authenticated;
}

function know(token: StaticTokenConfig): KnownToken {
  return { token, identity: identityOf(token) };
}

function identityOf(token: StaticTokenConfig): Authenticated {
  const tenantId = tenantOf(token.subject, token.raw);
  if (tenantId === undefined) return refuse("invalid_tenant");
  const { role, exp } = token.raw;
  return accept({
    subject: token.subject,
    workerId: workerIdOf(token.subject, ""),
    tenantId,
    scopes: new Set(token.scopes),
    eventTypes: token.eventTypes.map((each) => each.toLowerCase()),
    isAdmin:
      token.scopes.includes(adminScope) ||
      (typeof role === "string" && role.toUpperCase() === "ADMIN"),
    expiresMs: typeof exp === "number" ? exp * 1000 : undefined,
  });
}

function isPast(expiresMs: number | undefined, nowMs: number): boolean {
  return expiresMs !== undefined && expiresMs <= nowMs;
}
