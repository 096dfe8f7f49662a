/**
 * The same path for every operation and every transport: authenticate, authorise, run, measure.
 * Refusals are answers; faults of the storage become refusals here; anything else is a bug and is
 * logged with the request it broke.
 */
import { FaultError } from "@codeq/engine";
import { type Authenticator, bearerToken } from "../access/authenticate.ts";
import type { Identity } from "../access/identity.ts";
import type { Logger } from "../telemetry/logger.ts";
import { refusalOf } from "./answer-each.ts";
import {
  type Answer,
  type Call,
  type Operation,
  type Refusal,
  refusal,
  type Server,
} from "./operation.ts";

// biome-ignore lint/suspicious/noExplicitAny: authorisation does not look at inputs and outputs.
type AnyOperation = Operation<any, any>;

export class Dispatch {
  readonly #server: Server;
  readonly #authenticator: Authenticator;
  readonly #logger: Logger;
  #accepting = true;

  constructor(parts: { server: Server; authenticator: Authenticator; logger: Logger }) {
    this.#server = parts.server;
    this.#authenticator = parts.authenticator;
    this.#logger = parts.logger;
  }

  /** Who the caller is, if it may call the operation at all. */
  async authorize(
    operation: AnyOperation,
    authorization: string | undefined,
  ): Promise<Answer<Identity>> {
    const { access, scope } = operation;
    const token = bearerToken(authorization);
    if (!token.ok) return refusal(token.code);
    const outcome = await this.#authenticator.authenticate(access, token.value);
    if (!outcome.ok) return refusal(outcome.code);
    if (scope !== undefined && !outcome.value.scopes.has(scope)) return refusal("missing_scope");
    return outcome;
  }

  async run<Input, Output>(
    operation: Operation<Input, Output>,
    call: Call,
    input: Input,
  ): Promise<Answer<Output>> {
    const { clock, events } = this.#server;
    const startedMs = clock.monotonicMs();
    const answer = await this.#attempt(operation, call, input);
    const outcome = answer.ok ? "ok" : answer.code === "internal" ? "failed" : "refused";
    events.operated(operation.name, outcome, (clock.monotonicMs() - startedMs) / 1000);
    return answer;
  }

  /** Refuses everything from now on; what runs already goes on. */
  stopAccepting(): void {
    this.#accepting = false;
  }

  async #attempt<Input, Output>(
    operation: Operation<Input, Output>,
    call: Call,
    input: Input,
  ): Promise<Answer<Output>> {
    if (!this.#accepting) return refusal("shutting_down");
    if (this.#server.broker.store.engine.isOverloaded) return refusal("overloaded");
    try {
      return await operation.run(this.#server, call, input);
    } catch (error) {
      return this.#asRefusal(operation, error);
    }
  }

  #asRefusal(operation: AnyOperation, error: unknown): Refusal {
    if (error instanceof FaultError) return refusalOf(error);
    this.#logger.error("operation failed", {
      operation: operation.name,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    return refusal("internal");
  }
}
