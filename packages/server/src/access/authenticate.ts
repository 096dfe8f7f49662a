/**
 * From a bearer token to an identity, for each of the ways a route may be protected. Tokens are
 * checked before a body is read.
 */
import type { ErrorCode } from "@codeq/protocol";
import { accept, type Outcome, refuse } from "@codeq/queue";
import type { Config, StaticTokenConfig } from "../config/settings.ts";
import { adminScope, anyEventType, type Identity, workerScopes } from "./identity.ts";
import { StaticTokens } from "./static-token.ts";
import { tenantOf } from "./tenant.ts";

export type AccessKind = "producer" | "worker" | "either" | "admin";

type Authenticated = Outcome<Identity, ErrorCode>;

export class Authenticator {
  readonly #producers: StaticTokens;
  readonly #workers: StaticTokens;
  readonly #allowProducerAsWorker: boolean;

  constructor(config: Pick<Config, "producerAuth" | "workerAuth" | "allowProducerAsWorker">) {
    this.#producers = new StaticTokens(config.producerAuth);
    this.#workers = new StaticTokens(config.workerAuth);
    this.#allowProducerAsWorker = config.allowProducerAsWorker;
  }

  authenticate(kind: AccessKind, authorization: string | undefined): Promise<Authenticated> {
    if (authorization === undefined || authorization === "") {
      return Promise.resolve(refuse("missing_authorization"));
    }
    const token = /^bearer (.+)$/i.exec(authorization)?.[1]?.trim();
    if (token === undefined || token === "")
      return Promise.resolve(refuse("invalid_authorization"));
    return Promise.resolve(this.#identify(kind, token));
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
    return found === undefined ? refuse("invalid_token") : identityOf(found);
  }

  #worker(token: string): Authenticated {
    const found = this.#workers.find(token);
    if (found !== undefined) {
      if (found.eventTypes.length === 0) return refuse("missing_event_types");
      if (found.scopes.length === 0) return refuse("missing_worker_scope");
      return identityOf(found);
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
    if (worker !== undefined && worker.eventTypes.length > 0) return identityOf(worker);
    return this.#producer(token);
  }
}

function identityOf(token: StaticTokenConfig): Authenticated {
  const tenantId = tenantOf(token.subject, token.raw);
  if (tenantId === undefined) return refuse("invalid_tenant");
  const role = token.raw["role"];
  return accept({
    subject: token.subject,
    tenantId,
    scopes: new Set(token.scopes),
    eventTypes: token.eventTypes.map((each) => each.toLowerCase()),
    isAdmin:
      token.scopes.includes(adminScope) ||
      (typeof role === "string" && role.toUpperCase() === "ADMIN"),
  });
}
