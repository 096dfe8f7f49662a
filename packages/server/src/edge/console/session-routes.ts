/**
 * Signing in to and out of the console. The token is sent in the Authorization header, never in a URL, and
 * is returned as a cookie that scripts cannot read. A development server signs in callers on the same
 * machine automatically.
 */
import { type KeptOf, Session as ShownSession } from "@codeq/protocol/api";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { developmentToken, hasDevelopmentToken } from "../../config/auth/choose-auth.ts";
import { isLoopback } from "../../config/listeners.ts";
import { type Config, shownDurability } from "../../config/settings.ts";
import { type Authenticator, bearerToken } from "../access/authenticator.ts";
import type { Identity } from "../access/identity.ts";
import { addressOf } from "../connections.ts";
import type { Dispatch } from "../dispatch.ts";
import { writerOf } from "../http/contract/contract-route.ts";
import type { JsonCodec } from "../http/json-codec.ts";
import { problem } from "../http/route.ts";
import { type Answer, type Refusal, refusal } from "../operation.ts";
import { csrfHeader, readCookie, setCookie } from "./cookies.ts";
import type { IdentityLogin } from "./identity-login.ts";
import {
  type OpenedSession,
  type Session,
  type Sessions,
  sessionMs,
  sessionTokenCharsMax,
} from "./sessions.ts";

export interface SessionParts {
  readonly sessions: Sessions;
  readonly authenticator: Authenticator;
  readonly dispatch: Dispatch;
  readonly codec: JsonCodec;
  readonly config: Config;
  readonly version: string;
  /** Sign-in at an identity server. */
  readonly login: IdentityLogin | undefined;
}

const path = "/ui/session";
const writeSession = writerOf(ShownSession);
const tooLong =
  `the token is longer than ${sessionTokenCharsMax} characters, which is more than a browser keeps in a cookie; ` +
  "sign in with an API key";

export function addSessionRoutes(app: FastifyInstance, parts: SessionParts): void {
  const { sessions } = parts;
  app.get(path, async (request, reply) => {
    const found = sessions.read(readCookie("session", request.headers) ?? "");
    if (found !== undefined) {
      const identity = await identityOf(parts, found.token);
      if (identity !== undefined) return show(reply, parts, { session: found, identity });
    }
    if (!mayEnterUnasked(parts.config, request)) {
      return refuse(reply, { ...refusal("missing_authorization"), ...howToSignIn(parts) });
    }
    return await signIn(request, reply, { parts, token: developmentToken });
  });
  app.post(path, async (request, reply) => {
    const token = bearerToken(request.headers.authorization);
    if (!token.ok) return refuse(reply, noteSignIn(parts, request, refusal(token.code)));
    return await signIn(request, reply, { parts, token: token.value });
  });
  app.delete(path, (request, reply) => {
    const { headers } = request;
    const found = sessions.read(readCookie("session", headers) ?? "");
    if (found === undefined || headers[csrfHeader] !== found.csrf) {
      return refuse(reply, refusal("missing_authorization"));
    }
    sessions.end(found);
    const isSecure = isEncrypted(request);
    reply.header("set-cookie", setCookie("session", headers, { value: "", seconds: 0, isSecure }));
    return reply.code(204).send();
  });
}

async function signIn(
  request: FastifyRequest,
  reply: FastifyReply,
  { parts, token }: { readonly parts: SessionParts; readonly token: string },
): Promise<FastifyReply> {
  const opened = await openSession(parts, request, token);
  if (!opened.ok) return refuse(reply, noteSignIn(parts, request, opened));
  reply.header("set-cookie", opened.value.setCookie);
  return show(reply, parts, opened.value);
}

interface SignedIn {
  readonly session: OpenedSession;
  readonly identity: Identity;
  readonly setCookie: string;
}

/** Opens a session for this token. */
export async function openSession(
  { sessions, authenticator }: SessionParts,
  request: FastifyRequest,
  token: string,
): Promise<Answer<SignedIn>> {
  const outcome = await authenticator.authenticate("viewer", token);
  if (!outcome.ok) return refusal(outcome.code);
  const identity = outcome.value;
  if (!identity.isViewer) return refusal("admin_only");
  const session = sessions.open(token);
  if (session === undefined) return refusal("invalid_argument", tooLong);
  const set = { value: session.cookie, seconds: sessionMs / 1000, isSecure: isEncrypted(request) };
  const cookie = setCookie("session", request.headers, set);
  return { ok: true, value: { session, identity, setCookie: cookie } };
}

/** Names the identity server to sign in at, if one is configured. */
function howToSignIn({ login }: SessionParts): Pick<Refusal, "details"> {
  return login === undefined ? {} : { details: { identityServer: login.host } };
}

async function identityOf(parts: SessionParts, token: string): Promise<Identity | undefined> {
  const outcome = await parts.authenticator.authenticate("viewer", token);
  return outcome.ok && outcome.value.isViewer ? outcome.value : undefined;
}

/** Any page on this machine can use the development token, which is not secret. */
function mayEnterUnasked(config: Config, { headers, socket }: FastifyRequest): boolean {
  if (config.env !== "dev" || !config.producerAuth.some(hasDevelopmentToken)) return false;
  if ("x-forwarded-for" in headers || "forwarded" in headers) return false;
  // A foreign host name that resolves to this machine belongs to a foreign page (DNS rebinding).
  const host = (headers.host ?? "").replace(/:\d+$/, "").replace(/^\[|\]$/g, "");
  const site = headers["sec-fetch-site"];
  const isOwnPage = site === undefined || site === "same-origin" || site === "none";
  return isOwnPage && isLoopback(host) && isLoopback(addressOf(socket.remoteAddress ?? ""));
}

/** Whether the browser uses TLS, to this server or to a proxy. */
export function isEncrypted({ headers, socket }: FastifyRequest): boolean {
  return "encrypted" in socket || headers["x-forwarded-proto"] === "https";
}

function show(
  reply: FastifyReply,
  { config, codec, version }: SessionParts,
  { session, identity }: { session: Session | OpenedSession; identity: Identity },
): FastifyReply {
  const { subject, tenantId, isAdmin, isOperator, hidesPayloads, apiKeyId } = identity;
  const expiresMs = Math.min(session.expiresMs, identity.expiresMs ?? session.expiresMs);
  const shown: KeptOf<typeof ShownSession> = {
    subject,
    tenantId,
    role: isOperator ? "operator" : isAdmin ? "admin" : "viewer",
    payloads: hidesPayloads ? "hidden" : "shown",
    apiKeyId,
    csrf: session.csrf,
    expiresMs,
    env: config.env,
    version,
    durability: shownDurability(config),
    shards: config.shards,
    traceUrl: config.consoleTraceUrl,
  };
  return send(reply, writeSession(shown, codec));
}

export function noteSignIn(
  parts: SessionParts,
  request: FastifyRequest,
  refused: Refusal,
): Refusal {
  const from = { address: addressOf(request.ip), requestId: request.id };
  return parts.dispatch.noteRefusal("sign_in", refused, { from });
}

function refuse(reply: FastifyReply, refused: Refusal): FastifyReply {
  const { status, body, headers = {} } = problem(refused);
  return send(reply.code(status).headers(headers), String(body));
}

function send(reply: FastifyReply, body: string): FastifyReply {
  const kept = { "cache-control": "no-store", "x-content-type-options": "nosniff" };
  return reply.headers(kept).type("application/json; charset=utf-8").send(body);
}
