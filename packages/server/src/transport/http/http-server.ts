/**
 * The REST API on Fastify. Authorisation happens before a body is read; every reply carries a request
 * id; whatever goes wrong has the same shape. Callers that stop listening are noticed while they wait.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from "fastify";
import type { Authenticator } from "../../access/authenticator.ts";
import type { Identity } from "../../access/identity.ts";
import type { Origin } from "../../operations/audit-event.ts";
import type { Credentials, Dispatch } from "../../operations/dispatch.ts";
import type { Admission } from "../../operations/operation.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { addressOf } from "../address.ts";
import { type Connection, Connections } from "../connections.ts";
import type { ServerTls } from "../tls/server-tls.ts";
import { adminRoutes } from "./admin-routes.ts";
import { apiKeyRoutes } from "./api-key-routes.ts";
import { auditRoutes } from "./audit-routes.ts";
import { BodyTurns } from "./body-turns.ts";
import { eventRoutes } from "./event-routes.ts";
import type { JsonCodec } from "./json-codec.ts";
import { readBody, type Shape, shapeOf } from "./json-outline.ts";
import { createNodeServer, type HttpLimits } from "./node-server.ts";
import { rateLimitHeaders } from "./rate-limit-headers.ts";
import { RequestIds } from "./request-ids.ts";
import { type AnyRoute, type HttpReply, problem, problemOf } from "./route.ts";
import { taskRoutes } from "./task-routes.ts";
import { workerRoutes } from "./worker-routes.ts";

export interface HttpOptions {
  readonly dispatch: Dispatch;
  readonly authenticator: Authenticator;
  readonly codec: JsonCodec;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly bodyBytesMax: number;
  readonly limits: HttpLimits;
  /** Undefined for plain HTTP. */
  readonly tls: ServerTls | undefined;
  /** Routes without a token, such as health and metrics. */
  readonly pages: readonly Page[];
}

export interface Page {
  readonly path: string;
  readonly show: () => { readonly status: number; readonly type: string; readonly body: string };
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** What of a large body is looked at. */
    shape?: Shape;
  }
  interface FastifyInstance {
    readonly connections: Connections;
  }
  interface FastifyRequest {
    identity: Identity | undefined;
    admission: Admission | undefined;
    bodyText: string;
    /** Set while a known caller's request is under way. */
    held: Connection | undefined;
  }
}

export const routes: readonly AnyRoute[] = [
  ...taskRoutes,
  ...adminRoutes,
  ...apiKeyRoutes,
  ...auditRoutes,
  ...eventRoutes,
  ...workerRoutes,
];

const jsonType = "application/json; charset=utf-8";
const eventsType = "text/event-stream; charset=utf-8";
const requestIdPattern = /^[\x21-\x7e]{1,128}$/;

export function createHttpServer(options: HttpOptions): FastifyInstance {
  const { limits, tls, logger } = options;
  const connections = new Connections({ max: limits.connectionsMax, listener: "http", logger });
  const app = Fastify({
    bodyLimit: options.bodyBytesMax,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 256 },
    serverFactory: (handler) => createNodeServer(handler, { limits, connections, tls }),
    forceCloseConnections: "idle",
    exposeHeadRoutes: false,
    genReqId: requestId,
    // A path that cannot be decoded, or with a longer part than any id has, leads nowhere.
    frameworkErrors: (_error, request, reply) => {
      reply.header("x-request-id", request.id);
      pageNotFound(reply);
    },
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false } },
  });
  app.decorate("connections", connections);
  app.decorateRequest("held", undefined);
  app.decorateRequest("identity", undefined);
  app.decorateRequest("admission", undefined);
  app.decorateRequest("bodyText", "");
  readBodies(app);
  app.addHook("onRequest", async (request, reply) => {
    reply.header("x-request-id", request.id);
    // The content type is not looked at; one that is not well-formed must not be a reason to refuse.
    const { headers } = request.raw;
    if (headers["content-type"] !== undefined) headers["content-type"] = "application/json";
  });
  const closing = { hasBegun: false };
  app.addHook("preClose", async () => {
    closing.hasBegun = true;
  });
  app.addHook("onResponse", async (request, reply) => {
    // A connection that was busy when closing began would be kept open, and the end put off by it.
    if (closing.hasBegun) setImmediate(() => app.server.closeIdleConnections());
    request.held?.release();
    const { method, id } = request;
    const route = request.routeOptions.url ?? "unknown";
    const status = reply.statusCode;
    options.metrics.httpRequests.inc(route, method, String(status));
    const level = status >= 500 ? "warn" : "debug";
    options.logger[level]("request", {
      requestId: id,
      method,
      route,
      status,
      ms: reply.elapsedTime,
    });
  });
  app.setErrorHandler((error: FastifyError, request, reply) =>
    send(reply, replyToError(error, request, options.logger)),
  );
  app.setNotFoundHandler((_request, reply) => pageNotFound(reply));
  for (const page of options.pages) {
    app.get(page.path, async (_request, reply) => {
      const { status, type, body } = page.show();
      return reply.code(status).type(type).send(body);
    });
  }
  for (const each of routes) addRoute(app, each, { ...options, closing });
  return app;
}

function pageNotFound(reply: FastifyReply): FastifyReply {
  return reply.code(404).type("text/plain").send("404 page not found");
}

/** All content types are taken for JSON; what cannot be parsed is decided on by the route. */
function readBodies(app: FastifyInstance): void {
  const turns = new BodyTurns();
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "string" }, (request, body, done) => {
    const text = body as string;
    request.bodyText = text;
    const { shape } = request.routeOptions.config;
    turns.take(text.length, () => done(null, readBody(text, shape)));
  });
}

function addRoute(
  app: FastifyInstance,
  each: AnyRoute,
  options: HttpOptions & { readonly closing: { readonly hasBegun: boolean } },
): void {
  const { dispatch, authenticator, codec, closing } = options;
  const watch = (identity: Identity) => (onRevoked: () => void) =>
    authenticator.watch(identity, onRevoked);
  const hasBody = each.body !== undefined;
  app.route({
    method: each.method,
    url: each.path,
    ...(hasBody ? { schema: { body: each.body }, config: { shape: shapeOf(each.body) } } : {}),
    attachValidation: true,
    onRequest: async (request, reply) => {
      const answer = await dispatch.authorize(each.operation, credentialsOf(request));
      if (!answer.ok) return send(reply, problem(answer));
      if (isCompressed(request)) return send(reply, compressed);
      request.identity = answer.value;
      request.held = app.connections.of(request.raw.socket);
      request.held?.hold();
      // Before the body is read: what is refused for its number need not be received.
      const admitted = dispatch.admit(each.operation, answer.value);
      if (!admitted.ok) return send(reply, problem(admitted));
      request.admission = admitted.value;
      return undefined;
    },
    handler: async (request, reply) => {
      if (request.validationError !== undefined && each.bodyOptional !== true) {
        return send(reply, problemOf("invalid_body", each.invalidBody));
      }
      const isUsable = request.validationError === undefined;
      const http = {
        params: request.params as Record<string, string>,
        query: request.query as Record<string, string | undefined>,
        headers: request.headers,
        body: isUsable ? request.body : undefined,
        text: request.bodyText,
      };
      const input = each.input(http);
      if (!input.ok) return send(reply, problem(input));
      const waits = each.waits?.(input.value) === true;
      // Its body came after the others had been sent home; waiting would hold up the shutdown.
      if (waits && closing.hasBegun) return send(reply, problemOf("shutting_down"));
      const identity = request.identity as Identity;
      const signal = waits ? waitSignal(request.raw, reply.raw, watch(identity)) : undefined;
      const { admission } = request;
      const call = { identity, signal, admission, from: fromOf(request) };
      const answer = await dispatch.run(each.operation, call, input.value);
      return send(reply, answer.ok ? each.reply(answer.value, codec, http) : problem(answer));
    },
  });
}

/** Nothing is unpacked: a small body could become an enormous one. */
function isCompressed({ headers }: FastifyRequest): boolean {
  const encoding = headers["content-encoding"] ?? "";
  return !/^\s*(identity)?\s*$/i.test(encoding);
}

const compressed: HttpReply = {
  ...problemOf("compressed_body"),
  headers: { "accept-encoding": "identity" },
};

function send(reply: FastifyReply, { status, body, headers }: HttpReply): FastifyReply {
  const { admission } = reply.request;
  if (admission !== undefined) reply.headers(rateLimitHeaders(admission.limits()));
  if (headers !== undefined) reply.headers(headers);
  if (status === 503) reply.header("retry-after", "1");
  reply.code(status);
  if (body === undefined) return reply.send();
  return reply.header("content-type", typeof body === "string" ? jsonType : eventsType).send(body);
}

function fromOf({ ip, id }: FastifyRequest): Origin {
  return { address: addressOf(ip), requestId: id };
}

function credentialsOf(request: FastifyRequest): Credentials {
  const { headers, query } = request;
  const { tenant } = query as Record<string, unknown>;
  const role = headers["x-role"];
  return {
    authorization: headers.authorization,
    role: typeof role === "string" ? role : undefined,
    // One that is given twice is an array, and as text no tenant.
    tenant: tenant === undefined ? undefined : String(tenant),
    from: fromOf(request),
  };
}

/** Aborts when the caller closes the connection before it got its answer, or may not have it. */
function waitSignal(
  request: IncomingMessage,
  response: ServerResponse,
  watch: (onRevoked: () => void) => () => void,
): AbortSignal {
  const controller = new AbortController();
  const stopWatching = watch(() => controller.abort());
  response.once("close", () => {
    stopWatching();
    if (!response.writableFinished) controller.abort();
  });
  if (request.socket.destroyed) controller.abort();
  return controller.signal;
}

function replyToError(error: FastifyError, request: FastifyRequest, logger: Logger): HttpReply {
  if (error.code === "FST_ERR_CTP_BODY_TOO_LARGE") return problemOf("body_too_large");
  const status = error.statusCode ?? 500;
  if (status >= 400 && status < 500)
    return { status, body: JSON.stringify({ error: "invalid body" }) };
  logger.error("request failed", {
    requestId: request.id,
    route: request.routeOptions.url,
    error: error.stack ?? error.message,
  });
  return problemOf("internal");
}

const requestIds = new RequestIds();

function requestId(request: IncomingMessage): string {
  const sent = request.headers["x-request-id"];
  return typeof sent === "string" && requestIdPattern.test(sent) ? sent : requestIds.next();
}
