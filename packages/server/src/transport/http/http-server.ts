/**
 * The REST API on Fastify. Authorisation happens before a body is read; every reply has a request id; all
 * errors have the same form. A caller that disconnects while it waits is noticed.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { errors } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import type { Authenticator } from "../../access/authenticator.ts";
import type { Identity } from "../../access/identity.ts";
import type { IdentityLogin } from "../../access/identity-login.ts";
import type { Sessions } from "../../access/sessions.ts";
import type { Clock } from "../../clock.ts";
import { isLoopback } from "../../config/listeners.ts";
import type { Config } from "../../config/settings.ts";
import type { MaybePromise } from "../../maybe-promise.ts";
import type { Origin } from "../../operations/audit-event.ts";
import type { Credentials, Dispatch } from "../../operations/dispatch.ts";
import { operations } from "../../operations/index.ts";
import type { Admission, Answer, Cluster } from "../../operations/operation.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Tracing } from "../../telemetry/tracing/tracing.ts";
import { addressOf } from "../address.ts";
import { type Connection, Connections } from "../connections.ts";
import type { ServerTls } from "../tls/server-tls.ts";
import { adminRoutes } from "./admin-routes.ts";
import { apiKeyRoutes } from "./api-key-routes.ts";
import { artifactRoutes } from "./artifact-routes.ts";
import { auditRoutes } from "./audit-routes.ts";
import { backupRoutes } from "./backup-routes.ts";
import { BodyTurns } from "./body-turns.ts";
import { Calls, headersOf, type Listener, type Permit } from "./calls.ts";
import { clusterRoutes } from "./cluster-routes.ts";
import { addConsolePages } from "./console-pages.ts";
import { contractRoutes } from "./contract-route.ts";
import { csrfHeader, readCookie } from "./cookies.ts";
import { eventRoutes } from "./event-routes.ts";
import { jobRoutes } from "./job-routes.ts";
import type { JsonCodec } from "./json-codec.ts";
import { addLoginRoutes } from "./login-routes.ts";
import { createNodeServer, type HttpLimits } from "./node-server.ts";
import { packageVersion } from "./package-file.ts";
import { PlainAnswers, type TellAnswered } from "./plain-answers.ts";
import { PlainConnections } from "./plain-connections.ts";
import { type RedirectedRequest, redirectOf } from "./redirects.ts";
import { RequestIds } from "./request-ids.ts";
import { type AnyRoute, type HttpReply, problem, problemOf } from "./route.ts";
import { addSessionRoutes } from "./session-routes.ts";
import { taskAdminRoutes } from "./task-admin-routes.ts";
import { taskRoutes } from "./task-routes.ts";
import { webhookRoutes } from "./webhook-routes.ts";
import { workerRoutes } from "./worker-routes.ts";

export interface HttpOptions {
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly codec: JsonCodec;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly bodyBytesMax: number;
  /** Fields and query parameters that are not known are passed over. */
  readonly isLenient: boolean;
  readonly limits: HttpLimits;
  /** Undefined for plain HTTP. */
  readonly tls: ServerTls | undefined;
  /** Routes without a token, such as health and metrics. */
  readonly pages: readonly Page[];
  /** Who is signed in to the console; undefined when there is none. */
  readonly sessions: Sessions | undefined;
  /** Where people sign in to the console at an identity server. */
  readonly login: IdentityLogin | undefined;
  /** Of a node of a cluster. */
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
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface PageCaller {
  readonly authorization: string | undefined;
  /** Without something between that speaks for somebody else. */
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
    origin: Origin | undefined;
    identity: Identity | undefined;
    admission: Admission | undefined;
    /** The type of a file that is sent. */
    sentType: string | undefined;
    /** Set while a known caller's request is under way. */
    held: Connection | undefined;
  }
}

export const routes: readonly AnyRoute[] = [
  ...taskRoutes,
  ...adminRoutes,
  ...jobRoutes,
  ...backupRoutes,
  ...apiKeyRoutes,
  ...auditRoutes,
  ...eventRoutes,
  ...workerRoutes,
  ...clusterRoutes,
  ...taskAdminRoutes,
  ...webhookRoutes,
  ...contractRoutes(api.subscriptions, operations),
  ...artifactRoutes,
  ...contractRoutes(api.topics, operations),
];

/** Keeps a file from being read as a body. */
const uploadType = "application/vnd.codeq.upload";

/** More than any name may have, so that operations can say what is wrong with one that is too long. */
const pathPartCharsMax = 1024;

const requestIdPattern = /^[\x21-\x7e]{1,128}$/;

export function createHttpServer(options: HttpOptions): FastifyInstance {
  const { limits, tls, logger, clock } = options;
  const tell = tellOf(options);
  const connections = new Connections({
    max: limits.connectionsMax,
    listener: "http",
    logger,
  });
  const calls = new Calls(options);
  const answers = new PlainAnswers({
    calls,
    clock,
    requestIdOf,
    tell,
    tellFailure: (error, { id, route }) => fail(logger, error, { id, route }),
  });
  const plain = new PlainConnections({
    answers,
    isClosing: () => calls.isClosing,
    routes,
    connections,
    clock,
    limits,
    bodyBytesMax: options.bodyBytesMax,
  });
  const app = Fastify({
    bodyLimit: options.bodyBytesMax,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: pathPartCharsMax },
    serverFactory: (handler) => createNodeServer(handler, { limits, connections, plain, tls }),
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    genReqId: requestId,
    // A path that cannot be decoded, or with a part of such a length, leads nowhere.
    frameworkErrors: (_error, request, reply) => {
      reply.header("x-request-id", request.id);
      pageNotFound(reply);
    },
  });
  app.decorate("connections", connections);
  app.decorateRequest("held", undefined);
  app.decorateRequest("origin", undefined);
  app.decorateRequest("sentType", undefined);
  app.decorateRequest("identity", undefined);
  app.decorateRequest("admission", undefined);
  readBodies(app, calls);
  app.addHook("onRequest", (request, reply, done) => {
    reply.header("x-request-id", request.id);
    // The content type is not looked at; one that is not well-formed must not be a reason to refuse.
    const { headers } = request.raw;
    const isUpload = request.routeOptions.config.route?.isUpload === true;
    if (isUpload) {
      request.sentType = headers["content-type"];
      headers["content-type"] = uploadType;
    } else if (headers["content-type"] !== undefined) headers["content-type"] = "application/json";
    done();
  });
  app.addHook("preClose", async () => {
    calls.close();
    plain.closeIdle();
  });
  app.addHook("onResponse", (request, reply, done) => {
    // A connection that was busy when closing began would be kept open, and the end put off by it.
    if (calls.isClosing) setImmediate(() => app.server.closeIdleConnections());
    request.held?.release();
    const { method, id } = request;
    const route = request.routeOptions.url ?? "unknown";
    const { headers, url: path } = request.raw;
    const sent = { path: path ?? "", headers };
    tell({ requestId: id, method, route, status: reply.statusCode, ms: reply.elapsedTime }, sent);
    done();
  });
  app.setErrorHandler((error: FastifyError, request, reply) =>
    send(reply, replyToError(error, request, options.logger)),
  );
  app.setNotFoundHandler((_request, reply) => pageNotFound(reply));
  for (const page of options.pages) {
    app.get(page.path, async ({ headers, socket }, reply) => {
      const isForwarded = "x-forwarded-for" in headers || "forwarded" in headers;
      const isOnThisMachine = !isForwarded && isLoopback(addressOf(socket.remoteAddress ?? ""));
      const {
        status,
        type,
        body,
        headers: more = {},
      } = await page.show({
        authorization: headers.authorization,
        isOnThisMachine,
      });
      return reply.code(status).headers(more).type(type).send(body);
    });
  }
  const { sessions, login } = options;
  if (sessions !== undefined) {
    addConsolePages(app);
    const parts = { ...options, sessions, version: packageVersion() };
    addSessionRoutes(app, parts);
    if (login !== undefined) addLoginRoutes(app, { ...parts, login });
  }
  for (const each of routes) addRoute(app, each, { ...options, calls });
  return app;
}

function redirected({ raw, headers, params }: FastifyRequest): RedirectedRequest {
  return { url: raw.url ?? "", headers, params: params as Record<string, string> };
}

function tellOf({ metrics, logger, tracing }: HttpOptions): TellAnswered {
  return (answered, sent) => {
    const { route, method, status } = answered;
    metrics.httpRequests.inc(route, method, String(status));
    tracing.requested(answered, sent);
    logger[status >= 500 ? "warn" : "debug"]("request", { ...answered });
  };
}

function pageNotFound(reply: FastifyReply): FastifyReply {
  return reply.code(404).type("text/plain").send("404 page not found");
}

/** All content types are taken for JSON; what cannot be read is decided on by the route. */
function readBodies(app: FastifyInstance, calls: Calls): void {
  const turns = new BodyTurns();
  app.removeAllContentTypeParsers();
  // Left to the operation, which may refuse it without having read anything.
  app.addContentTypeParser(uploadType, (_request, _body, done) => done(null, undefined));
  app.addContentTypeParser("*", { parseAs: "buffer" }, (request, body, done) => {
    const { route } = request.routeOptions.config;
    turns.take(body.length, () =>
      done(null, route === undefined ? undefined : calls.readBody(route, body as Buffer)),
    );
  });
}

function addRoute(
  app: FastifyInstance,
  each: AnyRoute,
  {
    calls,
    sessions,
    cluster,
    bodyBytesMax,
  }: Pick<HttpOptions, "sessions" | "cluster" | "bodyBytesMax"> & {
    readonly calls: Calls;
  },
): void {
  app.route({
    method: each.method,
    url: each.path,
    bodyLimit: Math.min(each.bodyBytesMax ?? bodyBytesMax, bodyBytesMax),
    config: { route: each },
    onRequest: (request, reply, done) => {
      request.origin = fromOf(request);
      const decide = (answer: Answer<Identity>): void => {
        if (!answer.ok) return void send(reply, problem(answer));
        if (isCompressed(request)) return void send(reply, compressed);
        const elsewhere = redirectOf(each, redirected(request), cluster);
        if (elsewhere !== undefined) return void send(reply, elsewhere);
        request.identity = answer.value;
        request.held = app.connections.of(request.raw.socket);
        request.held?.hold();
        const admitted = calls.admit(each, answer.value);
        if (!admitted.ok) return void send(reply, problem(admitted));
        request.admission = admitted.value;
        done();
      };
      const answer = calls.authorize(each, credentialsOf(request, sessions));
      if (answer instanceof Promise) answer.then(decide).catch(done);
      else decide(answer);
    },
    handler: async (request, reply) => {
      const body = (request.body as Answer<unknown> | undefined) ?? calls.readBody(each, undefined);
      if (!body.ok) return send(reply, problem(body));
      const http = {
        params: request.params as Record<string, string>,
        query: request.query as Record<string, string | undefined>,
        headers: each.isUpload
          ? { ...request.headers, "content-type": request.sentType }
          : request.headers,
        body: each.isUpload ? request.raw : body.value,
      };
      const { identity, admission, origin: from } = request;
      const caller = {
        identity,
        admission,
        from,
        listen: () => listenerOf(request.raw, reply.raw),
      };
      const answer = await calls.answer(each, http, caller as Admitted);
      // What was not read of a file that was refused is not worth a connection.
      if (each.isUpload && answer.status >= 400) reply.header("connection", "close");
      return send(reply, answer);
    },
  });
}

/** What is known of a caller once its request was let in. */
type Admitted = Permit & { readonly listen: () => Listener };

/** Nothing is unpacked: a small body could become an enormous one. */
function isCompressed({ headers }: FastifyRequest): boolean {
  const encoding = headers["content-encoding"] ?? "";
  return !/^\s*(identity)?\s*$/i.test(encoding);
}

const compressed: HttpReply = {
  ...problemOf("compressed_body"),
  headers: { "accept-encoding": "identity" },
};

function send(reply: FastifyReply, answer: HttpReply): FastifyReply {
  reply.headers(headersOf(answer, reply.request.admission)).code(answer.status);
  return answer.body === undefined ? reply.send() : reply.send(answer.body);
}

function fromOf({ ip, id }: FastifyRequest): Origin {
  return { address: addressOf(ip), requestId: id };
}

function credentialsOf(request: FastifyRequest, sessions: Sessions | undefined): Credentials {
  const { headers, query } = request;
  const { tenant } = query as Record<string, unknown>;
  const role = headers["x-role"];
  return {
    authorization: headers.authorization ?? sessionAuthorization(request, sessions),
    role: typeof role === "string" ? role : undefined,
    // One that is given twice is an array, and as text no tenant.
    tenant: tenant === undefined ? undefined : String(tenant),
    from: request.origin,
  };
}

/** Of a page of the console: its cookie alone is not enough, for browsers send it unasked. */
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

/** Aborts when the caller closes the connection before it got its answer. */
function listenerOf(request: IncomingMessage, response: ServerResponse): Listener {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  response.once("close", () => {
    if (!response.writableFinished) abort();
  });
  if (request.socket.destroyed) abort();
  return { signal: controller.signal, abort, onceOver: (run) => response.once("close", run) };
}

function replyToError(error: FastifyError, request: FastifyRequest, logger: Logger): HttpReply {
  if (error.code === "FST_ERR_CTP_BODY_TOO_LARGE") return bodyTooLarge(request);
  const status = error.statusCode ?? 500;
  if (status >= 400 && status < 500)
    return { status, body: JSON.stringify({ error: "invalid body" }) };
  fail(logger, error, { id: request.id, route: request.routeOptions.url });
  return problemOf("internal");
}

function bodyTooLarge({ routeOptions }: FastifyRequest): HttpReply {
  if (routeOptions.config.route?.bodyBytesMax === undefined) return problemOf("body_too_large");
  const { text } = errors.body_too_large;
  const max = routeOptions.bodyLimit;
  return problemOf("body_too_large", `${text}: at most ${max} bytes are accepted here`);
}

function fail(
  logger: Logger,
  error: unknown,
  { id, route }: { readonly id: string; readonly route: string | undefined },
): void {
  const shown = error instanceof Error ? (error.stack ?? error.message) : String(error);
  logger.error("request failed", { requestId: id, route, error: shown });
}

const requestIds = new RequestIds();

function requestId({ headers }: IncomingMessage): string {
  return requestIdOf(headers["x-request-id"]);
}

function requestIdOf(sent: string | string[] | undefined): string {
  return typeof sent === "string" && requestIdPattern.test(sent) ? sent : requestIds.next();
}
