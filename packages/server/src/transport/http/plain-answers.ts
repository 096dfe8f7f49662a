/** Answers plain requests. */
import { STATUS_CODES } from "node:http";
import type { Identity } from "../../access/identity.ts";
import type { Clock } from "../../clock.ts";
import { type MaybePromise, whenKnown } from "../../maybe-promise.ts";
import type { Origin } from "../../operations/audit-event.ts";
import type { Admission } from "../../operations/operation.ts";
import type { SentRequest } from "../../telemetry/tracing/tracing.ts";
import { type Calls, headersOf, type Listener, noQuery } from "./calls.ts";
import type { FoundRoute, PlainHeaders } from "./plain-request.ts";
import { type HttpReply, problem, problemOf } from "./route.ts";

/** A whole request. */
export interface PlainCall {
  readonly path: string;
  readonly found: FoundRoute;
  readonly headers: PlainHeaders;
  readonly body: Buffer;
  /** Of the caller. */
  readonly address: string;
}

/** Status and headers, without those that the connection adds; and the body. */
export interface PlainReply {
  readonly head: string;
  readonly text: string;
}

/** The connection that gets the answer. */
export interface PlainCaller {
  /** Called when the caller is authenticated. */
  readonly known: () => void;
  readonly listen: () => Listener;
}

export interface PlainAnswersParts {
  readonly calls: Calls;
  readonly clock: Clock;
  readonly requestIdOf: (sent: string | undefined) => string;
  readonly tell: TellAnswered;
  readonly tellFailure: (error: unknown, request: { id: string; route: string }) => void;
}

export type TellAnswered = (answered: Answered, sent: SentRequest) => void;

/** A request that was answered. */
export interface Answered {
  readonly requestId: string;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly ms: number;
}

/** A request that is being answered. */
interface Current {
  readonly call: PlainCall;
  readonly caller: PlainCaller;
  readonly from: Origin;
  readonly startedMs: number;
  admission: Admission | undefined;
}

export class PlainAnswers {
  readonly #parts: PlainAnswersParts;

  constructor(parts: PlainAnswersParts) {
    this.#parts = parts;
  }

  answer(call: PlainCall, caller: PlainCaller): MaybePromise<PlainReply> {
    const { clock, requestIdOf } = this.#parts;
    const { address, headers } = call;
    const from = { address, requestId: requestIdOf(headers["x-request-id"]) };
    const startedMs = clock.monotonicMs();
    const current: Current = { call, caller, from, startedMs, admission: undefined };
    try {
      const reply = this.#authorize(current);
      if (!(reply instanceof Promise)) return this.#finish(current, reply);
      return reply.then(
        (known) => this.#finish(current, known),
        (error: unknown) => this.#fail(current, error),
      );
    } catch (error) {
      return this.#fail(current, error);
    }
  }

  #authorize(current: Current): MaybePromise<HttpReply> {
    const { call, from } = current;
    const { authorization, "x-role": role } = call.headers;
    const credentials = { authorization, role, tenant: undefined, from };
    const answer = this.#parts.calls.authorize(call.found.route, credentials);
    return whenKnown(answer, (known) =>
      known.ok ? this.#run(current, known.value) : problem(known),
    );
  }

  #run(current: Current, identity: Identity): MaybePromise<HttpReply> {
    const { calls } = this.#parts;
    const { call, caller, from } = current;
    const { route, params } = call.found;
    caller.known();
    const admitted = calls.admit(route, identity);
    if (!admitted.ok) return problem(admitted);
    const admission = admitted.value;
    current.admission = admission;
    const body = calls.readBody(route, call.body);
    if (!body.ok) return problem(body);
    const http = { params, query: noQuery, headers: call.headers, body: body.value };
    return calls.answer(route, http, { identity, admission, from, listen: caller.listen });
  }

  #fail(current: Current, error: unknown): PlainReply {
    const { call, from } = current;
    this.#parts.tellFailure(error, { id: from.requestId, route: call.found.route.path });
    return this.#finish(current, problemOf("internal"));
  }

  #finish(current: Current, reply: HttpReply): PlainReply {
    const { clock, tell } = this.#parts;
    const { call, from } = current;
    const { method, path: route } = call.found.route;
    const ms = clock.monotonicMs() - current.startedMs;
    tell({ requestId: from.requestId, method, route, status: reply.status, ms }, call);
    return { head: headOf(reply, current), text: typeof reply.body === "string" ? reply.body : "" };
  }
}

function headOf(reply: HttpReply, { from, admission }: Current): string {
  const { status, body } = reply;
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nx-request-id: ${from.requestId}\r\n`;
  const headers = headersOf(reply, admission);
  for (const name of Object.keys(headers)) head += `${name}: ${headers[name]}\r\n`;
  return typeof body === "string" ? `${head}content-length: ${Buffer.byteLength(body)}\r\n` : head;
}
