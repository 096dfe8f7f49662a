/**
 * From a request to its reply, for every kind of connection. The caller is authenticated once, before the
 * body is read; the body is parsed once, when it has arrived.
 */
import { type Authenticator, isForAdmins } from "../../access/authenticator.ts";
import type { Identity } from "../../access/identity.ts";
import { type MaybePromise, whenKnown } from "../../maybe-promise.ts";
import type { Origin } from "../../operations/audit-event.ts";
import type { Credentials, Dispatch } from "../../operations/dispatch.ts";
import { type Admission, type Answer, refusal } from "../../operations/operation.ts";
import { bodyText } from "./body-text.ts";
import { readBody } from "./json-body.ts";
import type { JsonCodec } from "./json-codec.ts";
import { problemOfQuery, type QueryFields, tenantField } from "./query.ts";
import { rateLimitHeaders } from "./rate-limit-headers.ts";
import { type AnyRoute, type HttpReply, type HttpRequest, problem, problemOf } from "./route.ts";

/** A call that may be made, and what it counts as. */
export interface Permit {
  readonly identity: Identity;
  readonly admission: Admission;
  readonly from: Origin;
}

/** Who waits for an answer: the signal aborts when that is nobody, or when it is called. */
export interface Listener {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  /** Runs when the wait is over, whatever came of it. */
  onceOver(run: () => void): void;
}

export interface CallsParts {
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly codec: JsonCodec;
  /** Fields and query parameters that are not known are passed over. */
  readonly isLenient: boolean;
}

const jsonType = "application/json; charset=utf-8";
const eventsType = "text/event-stream; charset=utf-8";
const notText = "invalid body: it is not valid UTF-8";

export class Calls {
  readonly #parts: CallsParts;
  #isClosing = false;

  constructor(parts: CallsParts) {
    this.#parts = parts;
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** Nobody begins to wait from now on. */
  close(): void {
    this.#isClosing = true;
  }

  authorize(each: AnyRoute, credentials: Credentials): MaybePromise<Answer<Identity>> {
    return this.#parts.dispatch.authorize(each.operation, credentials);
  }

  /** What a route reads of the bytes of a body; undefined when there is none that can be used. */
  readBody(each: AnyRoute, bytes: Buffer | undefined): Answer<unknown> {
    const text = bytes === undefined ? "" : bodyText(bytes);
    if (text === undefined) return refusal("invalid_body", notText);
    const isEmpty = each.bodyOptional === true && text === "";
    if (each.body === undefined || isEmpty) return { ok: true, value: undefined };
    const { isLenient } = this.#parts;
    const read = readBody(text, each.body, isLenient);
    if (read.ok) return read;
    if (isLenient && each.bodyOptional === true) return { ok: true, value: undefined };
    return refusal("invalid_body", `${each.invalidBody ?? "invalid body"}: ${read.why}`);
  }

  /** Before the body is read: what is refused for its number need not be received. */
  admit(each: AnyRoute, identity: Identity): Answer<Admission> {
    return this.#parts.dispatch.admit(each.operation, identity);
  }

  answer(
    each: AnyRoute,
    request: HttpRequest,
    caller: Permit & { readonly listen: () => Listener },
  ): MaybePromise<HttpReply> {
    if (request.query !== noQuery && !this.#parts.isLenient) {
      const problematic = problemOfQuery(queryOf(each), request.query);
      if (problematic !== undefined) return problem(problematic);
    }
    const input = each.input(request);
    if (!input.ok) return problem(input);
    const waits = each.waits?.(input.value) === true;
    // Its body came after the others had been sent home; waiting would hold up the shutdown.
    if (waits && this.#isClosing) return problemOf("shutting_down");
    const { identity, admission, from } = caller;
    const signal = waits ? this.#watched(identity, caller.listen()) : undefined;
    const { dispatch, codec } = this.#parts;
    const call = { identity, signal, admission, from, authorizedFor: each.operation };
    return whenKnown(dispatch.run(each.operation, call, input.value), (answer) =>
      answer.ok ? each.reply(answer.value, codec, request) : problem(answer),
    );
  }

  /** Aborts also when the caller may not have the answer any more. */
  #watched(identity: Identity, { signal, abort, onceOver }: Listener): AbortSignal {
    onceOver(this.#parts.authenticator.watch(identity, abort));
    return signal;
  }
}

/** A request that came without any. */
export const noQuery: HttpRequest["query"] = {};

/** What may stand in the query of a route. */
export function queryOf({ query = {}, operation }: AnyRoute): QueryFields {
  return isForAdmins(operation.access) ? { ...query, tenant: tenantField } : query;
}

/** The headers of a reply, without those that HTTP itself asks for. */
export function headersOf(
  { status, body, headers }: HttpReply,
  admission: Admission | undefined,
): Readonly<Record<string, string>> {
  return {
    ...(admission === undefined ? undefined : rateLimitHeaders(admission.limits())),
    ...(body === undefined
      ? undefined
      : { "content-type": typeof body === "string" ? jsonType : eventsType }),
    ...(status === 503 ? { "retry-after": "1" } : undefined),
    ...headers,
  };
}
