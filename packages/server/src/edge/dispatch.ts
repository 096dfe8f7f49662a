/**
 * The common path of every operation and every transport: authenticate, authorise, limit, run, measure.
 * Refusals are answers; storage faults become refusals here; everything else is a bug and is logged with its
 * request.
 */
import { FaultError } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import type { Allowance, Limiter, LimitState } from "../core/limiter/limiter.ts";
import { type MaybePromise, whenKnown } from "../core/maybe-promise.ts";
import type { Events } from "../telemetry/events.ts";
import type { Logger } from "../telemetry/logger.ts";
import { type Authenticator, bearerToken, isForAdmins } from "./access/authenticator.ts";
import { everyTenant, type Identity, isTenantId } from "./access/identity.ts";
import { auditCall, auditRefusal } from "./audit/audit-calls.ts";
import type { Actor, Origin } from "./audit/audit-record.ts";
import {
  type Admission,
  type Answer,
  type Call,
  type Operation,
  type Rate,
  type Refusal,
  refusal,
  type Server,
} from "./operation.ts";
import { overQuota, refusalOf, wholeSeconds } from "./refusal-of.ts";

// biome-ignore lint/suspicious/noExplicitAny: authorisation does not look at inputs and outputs.
type AnyOperation = Operation<any, any>;

/** What a caller brings along to say who it is and as whom it acts. */
export interface Credentials {
  readonly authorization: string | undefined;
  /** The role it says it has; believed only where the configuration allows that. */
  readonly role?: string | undefined;
  /** The tenant that an operator wants to administer; its own when it names none. */
  readonly tenant?: string | undefined;
  readonly from?: Origin | undefined;
}

/** A call as a transport has it. */
export interface Caller extends Omit<Call, "admission"> {
  /** Present when the rate limit has already let the call in. */
  readonly admission?: Admission | undefined;
  /** The operation that `authorize` let the identity call; scope and role are not looked at again. */
  readonly authorizedFor?: AnyOperation | undefined;
}

export class Dispatch {
  readonly #server: Server;
  readonly #authenticator: Authenticator;
  readonly #limiter: Limiter;
  readonly #logger: Logger;
  #accepting = true;

  constructor(parts: {
    server: Server;
    authenticator: Authenticator;
    limiter: Limiter;
    logger: Logger;
  }) {
    this.#server = parts.server;
    this.#authenticator = parts.authenticator;
    this.#limiter = parts.limiter;
    this.#logger = parts.logger;
  }

  /** Who the caller is, if it may call the operation at all. Known tokens need not wait. */
  authorize(operation: AnyOperation, credentials: Credentials): MaybePromise<Answer<Identity>> {
    const { from } = credentials;
    const token = bearerToken(credentials.authorization);
    if (!token.ok) return this.noteRefusal(operation.name, refusal(token.code), { from });
    const isOpen = operation.takesPublicTokens === true;
    const visitor = isOpen ? this.#server.publicTokens.identityOf(token.value) : undefined;
    return whenKnown(
      visitor ?? this.#authenticator.authenticate(operation.access, token.value),
      (outcome): Answer<Identity> => {
        if (!outcome.ok) return this.noteRefusal(operation.name, refusal(outcome.code), { from });
        const identity = this.#withRole(outcome.value, credentials.role);
        const problem = problemOf(operation, identity);
        if (problem !== undefined) {
          return this.noteRefusal(operation.name, problem, { identity, from });
        }
        if (!isForAdmins(operation.access)) return outcome;
        const placed = inTenant(operation, identity, credentials.tenant);
        return placed.ok ? placed : this.noteRefusal(operation.name, placed, { identity, from });
      },
    );
  }

  /** Why the caller may not call the operation. */
  problemOf(operation: AnyOperation, call: Pick<Call, "identity" | "from">): Refusal | undefined {
    const problem = problemOf(operation, call.identity);
    return problem === undefined ? undefined : this.noteRefusal(operation.name, problem, call);
  }

  /** Adds a refusal of a caller to the audit trail, and returns the refusal. */
  noteRefusal(action: string, refused: Refusal, actor: Actor): Refusal {
    auditRefusal(this.#server, actor, { action, code: refused.code });
    return refused;
  }

  /**
   * Admits a call, or says when to retry. A call counts as one before its body is read; an operation that finds
   * more items counts the rest. A refused call counts only as a request of its tenant.
   */
  admit({ rate }: AnyOperation, identity: Identity): Answer<Admission> {
    const requests = this.#limiter.requestsOf(identity.tenantId);
    const allowance = rate && this.#limiter.of(rate.scope, identity);
    if (requests === undefined && allowance === undefined) return unlimited;
    const { events } = this.#server;
    const waitMs = requests?.take(1) ?? 0;
    if (requests !== undefined && waitMs > 0) return tooManyRequests(events, requests, waitMs);
    if (rate === undefined || allowance === undefined) {
      return { ok: true, value: { ...free, limits: () => requests?.state() ?? [] } };
    }
    const call = new CountedCall({ allowance, requests, rate, events });
    return call.countAs(1) ?? { ok: true, value: call };
  }

  /**
   * A call that has not been let in before is let in now. What can be decided is decided before this
   * returns, so calls have the order in which they came.
   */
  run<Input, Output>(
    operation: Operation<Input, Output>,
    caller: Caller,
    input: Input,
  ): MaybePromise<Answer<Output>> {
    this.noteUse(caller.identity);
    const startedMs = this.#server.clock.monotonicMs();
    return whenKnown(this.#attempt(operation, caller, input), (answer) => {
      this.noteAnswer(operation, answer, startedMs);
      if (answer.ok && operation.audit === undefined && operation.refusalsIn === undefined) {
        return answer;
      }
      const recorded = auditCall(this.#server, { operation, call: caller, input }, answer);
      return recorded === undefined ? answer : recorded.then(() => answer);
    });
  }

  /**
   * For callers that decide about several items of one message themselves: whether the items are allowed now, once
   * for all of them. What is decided is noted by `noteItems`.
   */
  enter(operation: AnyOperation, caller: Pick<Call, "identity" | "from">): Refusal | undefined {
    this.noteUse(caller.identity);
    return this.problemOf(operation, caller) ?? this.refusalNow();
  }

  /** Remembers when the caller's API key was last used, if it has one. */
  noteUse({ apiKeyId }: Identity): void {
    if (apiKeyId !== undefined) this.#server.apiKeys.noteUse(apiKeyId);
  }

  /** Measures a call that was answered. */
  noteAnswer(operation: AnyOperation, answer: Answer<unknown>, startedMs: number): void {
    const { clock, events } = this.#server;
    const outcome = answer.ok ? "ok" : answer.code === "internal" ? "failed" : "refused";
    events.operated(operation.name, outcome, (clock.monotonicMs() - startedMs) / 1000);
  }

  /** Measures items that were answered, all of them begun at the same time. */
  noteItems(
    operation: AnyOperation,
    answered: { readonly ok: number; readonly refused: number; readonly startedMs: number },
  ): void {
    const { clock, events } = this.#server;
    const seconds = (clock.monotonicMs() - answered.startedMs) / 1000;
    const { ok, refused } = answered;
    if (ok > 0) events.operated(operation.name, "ok", seconds, ok);
    if (refused > 0) events.operated(operation.name, "refused", seconds, refused);
  }

  /** What operations work on, for callers of `enter`. */
  get server(): Server {
    return this.#server;
  }

  /** Why the server refuses all calls now. */
  refusalNow(): Refusal | undefined {
    if (!this.#accepting) return refusal("shutting_down");
    if (this.#server.broker.isOverloaded) return refusal("overloaded");
    return undefined;
  }

  /** Refuses everything from now on; what runs already goes on. */
  stopAccepting(): void {
    this.#accepting = false;
  }

  /** A development convenience: a token without roles may say that it is an admin's. */
  #withRole(identity: Identity, role: string | undefined): Identity {
    if (role === undefined || !this.#server.config.allowRoleHeader) return identity;
    const isGiven = !identity.hasRole && role.trim().toLowerCase() === "admin";
    return isGiven ? { ...identity, isAdmin: true, isViewer: true } : identity;
  }

  #attempt<Input, Output>(
    operation: Operation<Input, Output>,
    caller: Caller,
    input: Input,
  ): MaybePromise<Answer<Output>> {
    if (caller.authorizedFor !== operation) {
      const problem = problemOf(operation, caller.identity);
      if (problem !== undefined) return problem;
    }
    const refused = this.refusalNow();
    if (refused !== undefined) return refused;
    const { identity, signal, from } = caller;
    let { admission } = caller;
    if (admission === undefined) {
      const admitted = this.admit(operation, identity);
      if (!admitted.ok) return admitted;
      admission = admitted.value;
    }
    try {
      const answer = operation.run(this.#server, { identity, signal, admission, from }, input);
      if (!(answer instanceof Promise)) return unlessCutOff(caller, answer);
      return answer.then(
        (known) => unlessCutOff(caller, known),
        (error: unknown) => this.asRefusal(operation, error),
      );
    } catch (error) {
      return this.asRefusal(operation, error);
    }
  }

  /** The refusal for an error: a storage fault, or a bug, which is logged. */
  asRefusal(operation: AnyOperation, error: unknown): Refusal {
    if (error instanceof FaultError) return refusalOf(this.#server, error);
    this.#logger.error("operation failed", {
      operation: operation.name,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    return refusal("internal");
  }
}

/** A caller whose token was revoked while it waited does not get the answer. */
function unlessCutOff<T>({ signal, identity }: Caller, answer: Answer<T>): Answer<T> {
  const isCutOff = signal?.aborted === true && identity.isRevoked();
  return isCutOff ? refusal("token_revoked") : answer;
}

/** The one place that looks at scopes and roles. */
function problemOf(operation: AnyOperation, identity: Identity): Refusal | undefined {
  const { access, scope } = operation;
  if (access === "viewer" && !identity.isViewer) return refusal("admin_only");
  if (access === "admin" && !identity.isAdmin) {
    return refusal(identity.isViewer ? "read_only" : "admin_only");
  }
  if (access === "operator" && !identity.isOperator) return refusal("operator_only");
  if (scope !== undefined && !identity.scopes.has(scope)) return refusal("missing_scope");
  if (operation.showsPayloads === true && identity.hidesPayloads) return refusal("payloads_hidden");
  return undefined;
}

/** The identity as it acts in a tenant; only an operator may leave its own. */
function inTenant(
  operation: AnyOperation,
  identity: Identity,
  tenant: string | undefined,
): Answer<Identity> {
  if (tenant === undefined || tenant === identity.tenantId) return { ok: true, value: identity };
  if (!identity.isOperator)
    return refusal("operator_only", "only operators may select another tenant");
  const isEvery = tenant === everyTenant && operation.forEveryTenant === true;
  if (!isEvery && !isTenantId(tenant)) return refusal("invalid_argument", "invalid 'tenant'");
  const tenantId = tenant as TenantId;
  return { ok: true, value: { ...identity, tenantId, homeTenantId: identity.tenantId } };
}

/** The admission of a call without limits. */
const free: Admission = {
  countAs: () => undefined,
  countUpTo: (tasks) => tasks,
  takeBack: () => {},
  limits: () => [],
};
const unlimited: Answer<Admission> = { ok: true, value: free };

function tooManyRequests(events: Events, requests: Allowance, waitMs: number): Refusal {
  const limit = requests.burst;
  const exceeded = { quota: "requestsPerSecond", limit, current: limit } as const;
  return { ...overQuota({ events }, exceeded, waitMs), limits: requests.state() };
}

class CountedCall implements Admission {
  readonly #allowance: Allowance;
  readonly #requests: Allowance | undefined;
  readonly #rate: Rate;
  readonly #events: Events;
  #counted = 0;

  constructor(parts: {
    readonly allowance: Allowance;
    readonly requests: Allowance | undefined;
    readonly rate: Rate;
    readonly events: Events;
  }) {
    this.#allowance = parts.allowance;
    this.#requests = parts.requests;
    this.#rate = parts.rate;
    this.#events = parts.events;
  }

  countAs(tasks: number): Refusal | undefined {
    const { burst } = this.#allowance;
    const waitMs =
      tasks > burst ? Number.POSITIVE_INFINITY : this.#allowance.take(tasks - this.#counted);
    if (waitMs === 0) {
      this.#counted = tasks;
      return undefined;
    }
    this.takeBack(this.#counted);
    return waitMs === Number.POSITIVE_INFINITY ? tooLarge(tasks, burst) : this.#tooFast(waitMs);
  }

  countUpTo(tasks: number): number {
    this.#counted += this.#allowance.takeUpTo(tasks - this.#counted);
    return this.#counted;
  }

  takeBack(tasks: number): void {
    this.#allowance.giveBack(tasks);
    this.#counted -= tasks;
  }

  limits(): readonly LimitState[] {
    return [...this.#allowance.state(), ...(this.#requests?.state() ?? [])];
  }

  #tooFast(retryAfterMs: number): Refusal {
    const { scope, operation } = this.#rate;
    this.#events.rateLimited(scope, operation);
    return {
      ...refusal("rate_limited"),
      details: { operation, retryAfterSeconds: wholeSeconds(retryAfterMs), scope },
      retryAfterMs,
      limits: this.limits(),
    };
  }
}

/** Waiting would not help, so this is not answered as something that passes. */
function tooLarge(tasks: number, burst: number): Refusal {
  const text = `a batch of ${tasks} is larger than the burst size of the rate limit; send at most ${burst}`;
  return refusal("invalid_argument", text);
}
