/**
 * The REST API on Fastify. Authorisation happens before a body is read; every reply has a request id; all
 * errors have the same form. Operations that wait end when their caller disconnects.
 */
import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { errors } from "@codeq/protocol";
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import {
  anonymousConnectionsOf,
  earlyBytesOf,
  memoryOf,
  pipelinedOf,
  unreadBytesOf,
} from "../../config/memory.ts";
import type { Config } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import type { MaybePromise } from "../../core/maybe-promise.ts";
import { type Logger, SpacedWarnings } from "../../telemetry/logger.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Tracing } from "../../telemetry/tracing/tracing.ts";
import type { Authenticator } from "../access/authenticator.ts";
import { addressOf, Connections } from "../connections.ts";
import { addConsolePages } from "../console/console-pages.ts";
import { csrfHeader, readCookie } from "../console/cookies.ts";
import type { IdentityLogin } from "../console/identity-login.ts";
import { addLoginRoutes } from "../console/login-routes.ts";
import { packageVersion } from "../console/package-file.ts";
import { addSessionRoutes } from "../console/session-routes.ts";
import type { Sessions } from "../console/sessions.ts";
import type { Credentials, Dispatch } from "../dispatch.ts";
import type { InFlight, Input } from "../in-flight.ts";
import type { Cluster } from "../operation.ts";
import type { ServerTls } from "../tls/server-tls.ts";
import { Calls, type Exchange, headersOf, type Listener, requestIdOf } from "./calls.ts";
import { FairTurns } from "./fair-turns.ts";
import { pageCallerOf } from "./health.ts";
import type { JsonCodec } from "./json-codec.ts";
import { createNodeServer, type HttpLimits, isChunked } from "./node-server.ts";
import { PlainConnections } from "./plain/plain-connections.ts";
import { UnreadAnswers } from "./plain/unread-answers.ts";
import { RefusedBody, RequestBodies } from "./request-bodies.ts";
import { type AnyRoute, type HttpReply, problemOf } from "./route.ts";

export interface HttpOptions {
  readonly routes: readonly AnyRoute[];
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly codec: JsonCodec;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly bodyBytesMax: number;
  readonly inFlight: InFlight;
  /** Unknown fields and query parameters are ignored. */
  readonly isLenient: boolean;
  readonly limits: HttpLimits;
  /** Undefined for plain HTTP. */
  readonly tls: ServerTls | undefined;
  /** Routes without a token, such as health and metrics. */
  readonly pages: readonly Page[];
  /** The sessions of the console; undefined when the console is off. */
  readonly sessions: Sessions | undefined;
  /** Sign-in to the console at an identity server. */
  readonly login: IdentityLogin | undefined;
  /** Undefined for a server that is not in a cluster. */
  readonly cluster: Pick<Cluster, "leaderUrl"> | undefined;
  readonly config: Config;
}

export interface Page {
  readonly path: string;
  readonly show: (caller: PageCaller) => MaybePromise<ShownPage>;
}

export interface ShownPage {
  readonly status: number;
  readonly type: string;
  /** Bytes are the same for all callers, so that they are in memory once. */
  readonly body: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PageCaller {
  readonly authorization: string | undefined;
  /** True for direct connections from this machine, not through a proxy. */
  readonly isOnThisMachine: boolean;
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** The route that reads the body. */
    route?: AnyRoute;
  }
  interface FastifyInstance {
    readonly connections: Connections;
  }
  interface FastifyRequest {
    /** Undefined for pages and sessions of the console. */
    exchange: Exchange | undefined;
    /** The content type of an upload. */
    sentType: string | undefined;
    /** The memory of the body. */
    input: Input | undefined;
  }
}

/** Others, such as TRACE and QUERY, are allowed nowhere. */
const methods: ReadonlySet<string> = new Set([
  ...["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
]);

/** Uploads get this content type, so that Fastify does not read the file as a body. */
const uploadType = "application/vnd.codeq.upload";

/** Longer than any valid name, so that the operation explains what is wrong with a name that is too long. */
const pathPartCharsMax = 4096;

export function createHttpServer(options: HttpOptions): FastifyInstance {
  const { limits, tls, logger, clock } = options;
  const memoryBytes = memoryOf(options.config);
  const connections = new Connections({
    max: limits.connectionsMax,
    anonymousMax: anonymousConnectionsOf(memoryBytes),
    listener: "http",
    logger,
    pipelinedMax: pipelinedOf(memoryBytes),
  });
  const calls = new Calls(options);
  const turns = new FairTurns(clock);
  const unread = new UnreadAnswers(unreadBytesOf(memoryBytes));
  const onAborted = (): void => options.metrics.httpAborted.inc();
  const plain = new PlainConnections({
    calls,
    routes: options.routes,
    connections,
    clock,
    turns,
    limits,
    bodyBytesMax: options.bodyBytesMax,
    earlyBytesMax: earlyBytesOf(memoryBytes),
    unread,
  });
  const app = Fastify({
    bodyLimit: options.bodyBytesMax,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: pathPartCharsMax },
    serverFactory: (handler) =>
      createNodeServer(handler, { limits, connections, plain, tls, onAborted, turns }),
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
    // A path that cannot be decoded, or has a part that is too long, is not found.
    frameworkErrors: (_error, request, reply) => {
      reply.header("x-request-id", request.id);
      pageNotFound(reply);
    },
  });
  app.decorate("connections", connections);
  app.decorateRequest("exchange", undefined);
  app.decorateRequest("sentType", undefined);
  app.decorateRequest("input", undefined);
  receiveBodies(app, new RequestBodies({ ...options, onAborted }));
  app.addHook("onRequest", (request, reply, done) => {
    reply.header("x-request-id", request.id);
    if (!methods.has(request.method)) {
      const allow = [...methods].join(", ");
      reply.code(405).header("allow", allow).type("text/plain").send("405 method not allowed");
      return;
    }
    // The content type is ignored, so Fastify must not refuse a malformed one.
    const { headers } = request.raw;
    const isUpload = request.routeOptions.config.route?.isUpload === true;
    if (isUpload) {
      request.sentType = headers["content-type"];
      headers["content-type"] = uploadType;
    } else if (headers["content-type"] !== undefined) headers["content-type"] = "application/json";
    done();
  });
  app.addHook("onSend", (request, reply, payload, done) => {
    const { socket } = request.raw;
    // TLS encrypts a copy of its own for each client.
    const isCopied = typeof payload === "string" || "encrypted" in socket;
    if (isCopied && (typeof payload === "string" || Buffer.isBuffer(payload))) {
      const isAuthenticated = request.exchange?.identity !== undefined;
      reply.raw.once("close", unread.hold(socket, payload.length, isAuthenticated));
    }
    const connection = connections.of(request.raw.socket);
    const isUnknown = request.exchange?.identity === undefined;
    // The chunks of an unknown caller are not read.
    if (
      (connection !== undefined && FairTurns.isOver(connection)) ||
      (isUnknown && isChunked(request.raw))
    )
      reply.header("connection", "close");
    done();
  });
  app.addHook("preClose", async () => {
    calls.isClosing = true;
    plain.closeIdle();
  });
  app.addHook("onResponse", (request, reply, done) => {
    // A connection that was busy when the shutdown began would stay open and delay the shutdown.
    if (calls.isClosing) setImmediate(() => app.server.closeIdleConnections());
    const { method, id: requestId, exchange } = request;
    const connection = connections.of(request.raw.socket);
    if (exchange?.identity !== undefined) exchange.connection?.release();
    // Pages need no token; other requests without a caller count against the connection.
    else if (reply.statusCode >= 400) connection?.refused();
    const route = request.routeOptions.url ?? "unknown";
    const { headers, url: path = "" } = request.raw;
    const { statusCode: status, elapsedTime: ms } = reply;
    calls.answered({ requestId, method, route, status, ms }, { path, headers });
    done();
  });
  app.setErrorHandler((error: FastifyError, request, reply) =>
    send(reply, replyToError(error, request, calls)),
  );
  app.setNotFoundHandler((_request, reply) => pageNotFound(reply));
  for (const page of options.pages) {
    app.get(page.path, async (request, reply) => {
      const { status, type, body, headers: more = {} } = await page.show(pageCallerOf(request));
      return reply.code(status).headers(more).type(type).send(body);
    });
  }
  const { sessions, login } = options;
  if (sessions !== undefined) {
    addConsolePages(app);
    const parts = { ...options, sessions, version: packageVersion() };
    addSessionRoutes(app, parts);
    const warnings = new SpacedWarnings(logger, clock);
    if (login !== undefined) addLoginRoutes(app, { ...parts, login, warnings });
  }
  for (const each of options.routes) {
    addRoute(app, each, { ...options, calls });
    if (each.isCrossOrigin === true) addPreflight(app, each);
  }
  return app;
}

function pageNotFound(reply: FastifyReply): FastifyReply {
  return reply.code(404).type("text/plain").send("404 page not found");
}

/** All content types are received in the same way; the route reads the bytes. */
function receiveBodies(app: FastifyInstance, bodies: RequestBodies): void {
  const turns = new BodyTurns();
  app.removeAllContentTypeParsers();
  // The operation reads the file, so that it can refuse a file without having received it.
  app.addContentTypeParser(uploadType, (_request, _body, done) => done(null, undefined));
  app.addContentTypeParser("*", (request, payload, done) => {
    const { exchange, routeOptions, raw } = request;
    if (exchange?.identity === undefined) {
      // Pages and sessions of the console, and paths that do not exist.
      payload.resume();
      done(null, undefined);
      return;
    }
    bodies.receive(
      raw,
      {
        tenantId: exchange.identity.tenantId,
        bytesMax: routeOptions.bodyLimit,
        tooLarge: () => bodyTooLarge(request),
      },
      (received) => {
        if (received instanceof RefusedBody) {
          done(received);
          return;
        }
        request.input = received.input;
        turns.take(received.body.length, () => done(null, received.body));
      },
    );
  });
}

/**
 * Large bodies are parsed one in each turn of the event loop, in order of arrival. Otherwise several large
 * bodies would be parsed in a row, and small requests would wait for all of them.
 */
export class BodyTurns {
  readonly #waiting: (() => void)[] = [];

  /** Runs immediately when the body is small. */
  take(bodyBytes: number, run: () => void): void {
    if (bodyBytes <= smallBodyBytes) {
      run();
      return;
    }
    this.#waiting.push(run);
    if (this.#waiting.length === 1) setImmediate(this.#next);
  }

  readonly #next = (): void => {
    // The next turn is scheduled first, because the call below may throw.
    if (this.#waiting.length > 1) setImmediate(this.#next);
    this.#waiting.shift()?.();
  };
}

const smallBodyBytes = 64 * 1024;

function addRoute(
  app: FastifyInstance,
  each: AnyRoute,
  {
    calls,
    sessions,
    bodyBytesMax,
  }: Pick<HttpOptions, "sessions" | "bodyBytesMax"> & {
    readonly calls: Calls;
  },
): void {
  app.route({
    method: each.method,
    url: each.path,
    bodyLimit: Math.min(each.bodyBytesMax ?? bodyBytesMax, bodyBytesMax),
    config: { route: each },
    onRequest: (request, reply, done) => {
      const exchange = exchangeOf(each, request, reply);
      request.exchange = exchange;
      if (each.isCrossOrigin === true) reply.headers(anyOrigin);
      const decide = (refused: HttpReply | undefined): void => {
        if (refused === undefined) {
          done();
          return;
        }
        // Read, and not dumped by Node, so that its chunks are counted.
        request.raw.resume();
        send(reply, refused);
      };
      const entered = calls.enter(exchange, credentialsOf(request, exchange.from, sessions));
      if (entered instanceof Promise) entered.then(decide).catch(done);
      else decide(entered);
    },
    handler: async (request, reply) => {
      const { input } = request;
      if (input !== undefined) reply.raw.once("close", () => input.hold(0));
      const body = each.isUpload ? request.raw : (request.body as Buffer | undefined);
      assert(request.exchange !== undefined, "set before the body is received");
      const answer = await calls.answer(request.exchange, body);
      // The rest of a refused file is not worth receiving, so the connection is closed.
      if (each.isUpload && answer.status >= 400) reply.header("connection", "close");
      return send(reply, answer);
    },
  });
}

/** Pages of any site may ask: what counts is the token, which browsers do not send by themselves. */
const anyOrigin = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "codeq-error, retry-after, x-request-id",
} as const;

function addPreflight(app: FastifyInstance, { method, path }: AnyRoute): void {
  app.options(path, async (_request, reply) =>
    reply
      .headers({
        ...anyOrigin,
        "access-control-allow-methods": method,
        "access-control-allow-headers": "authorization, codeq-redirect",
        "access-control-max-age": "7200",
      })
      .code(204)
      .send(),
  );
}

function exchangeOf(route: AnyRoute, request: FastifyRequest, reply: FastifyReply): Exchange {
  const { raw, id: requestId, ip, headers, sentType, server } = request;
  return {
    route,
    path: raw.url ?? "",
    params: request.params as Record<string, string>,
    query: request.query as Record<string, string | undefined>,
    headers: route.isUpload ? { ...headers, "content-type": sentType } : headers,
    from: { address: addressOf(ip), requestId },
    connection: server.connections.of(raw.socket),
    listen: () => listenerOf(raw, reply.raw),
    identity: undefined,
    admission: undefined,
  };
}

function send(reply: FastifyReply, answer: HttpReply): FastifyReply {
  reply.headers(headersOf(answer, reply.request.exchange?.admission)).code(answer.status);
  return answer.body === undefined ? reply.send() : reply.send(answer.body);
}

function credentialsOf(
  request: FastifyRequest,
  from: Exchange["from"],
  sessions: Sessions | undefined,
): Credentials {
  const { headers, query } = request;
  const { tenant } = query as Record<string, unknown>;
  const role = headers["x-role"];
  return {
    authorization: headers.authorization ?? sessionAuthorization(request, sessions),
    role: typeof role === "string" ? role : undefined,
    // A repeated parameter is an array, whose text is no valid tenant.
    tenant: tenant === undefined ? undefined : String(tenant),
    from,
  };
}

/** The token of a console session. The cookie alone is not enough, because browsers send it with any request. */
function sessionAuthorization(
  { headers }: FastifyRequest,
  sessions: Sessions | undefined,
): string | undefined {
  const csrf = headers[csrfHeader];
  const cookie = readCookie("session", headers);
  if (typeof csrf !== "string" || cookie === undefined) return undefined;
  const token = sessions?.tokenOf(cookie, csrf);
  return token === undefined ? undefined : `Bearer ${token}`;
}

/**
 * Aborts when the caller closes the connection before the answer was sent. The response closes some turns of the event
 * loop after the client did; until then a claim that waits could be given a task.
 */
function listenerOf(request: IncomingMessage, response: ServerResponse): Listener {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  const { socket } = request;
  // A client may have any number of requests under way on a connection.
  socket.setMaxListeners(0).once("end", abort);
  response.once("close", () => {
    socket.off("end", abort);
    if (!response.writableFinished) abort();
  });
  if (socket.destroyed) abort();
  return { signal: controller.signal, abort, onceOver: (run) => response.once("close", run) };
}

function replyToError(error: FastifyError, request: FastifyRequest, calls: Calls): HttpReply {
  if (error instanceof RefusedBody) return error.reply;
  const status = error.statusCode ?? 500;
  if (status >= 400 && status < 500)
    return { status, body: JSON.stringify({ error: "invalid body" }) };
  return calls.failed(error, request.id, request.routeOptions.url);
}

function bodyTooLarge({ routeOptions }: FastifyRequest): HttpReply {
  const { bodyBytesMax, forLargeBodies } = routeOptions.config.route ?? {};
  const { text } = errors.body_too_large;
  const max = routeOptions.bodyLimit;
  if (forLargeBodies !== undefined) {
    return problemOf("body_too_large", `${text} (at most ${max} bytes); ${forLargeBodies}`);
  }
  if (bodyBytesMax === undefined) return problemOf("body_too_large");
  return problemOf("body_too_large", `${text}: at most ${max} bytes are accepted here`);
}
