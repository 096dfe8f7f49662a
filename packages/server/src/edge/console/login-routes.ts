/**
 * Signing in to the console at an identity server. Both routes only redirect: to the identity server, and
 * from there back to a page of the console. The URL names the kind of problem and
 * never contains text of the identity server; the log has the details.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { SpacedWarnings } from "../../telemetry/logger.ts";
import { refusal } from "../operation.ts";
import { readCookie, setCookie } from "./cookies.ts";
import { type IdentityLogin, type LoginFailure, loginMs } from "./identity-login.ts";
import { isEncrypted, noteSignIn, openSession, type SessionParts } from "./session-routes.ts";

export interface LoginRouteParts extends SessionParts {
  readonly login: IdentityLogin;
  readonly warnings: SpacedWarnings;
}

const path = "/ui/login";
const callback = `${path}/callback`;
const pageCharsMax = 1000;

export function addLoginRoutes(app: FastifyInstance, parts: LoginRouteParts): void {
  const { login } = parts;
  app.get(path, async (request, reply) => {
    const { to: wanted } = request.query as Record<string, unknown>;
    const to = ownPage(typeof wanted === "string" ? wanted : "");
    const begun = await login.begin({ redirectUri: redirectUri(request), to });
    if (!begun.ok) return fail(reply, parts, { request, failure: begun });
    const cookie = { value: begun.cookie, seconds: loginMs / 1000, isSecure: isEncrypted(request) };
    reply.header("set-cookie", setCookie("login", request.headers, cookie));
    return redirect(reply, begun.url);
  });
  app.get(callback, async (request, reply) => {
    const { headers, query } = request;
    // The same answer is accepted only once, also when it is refused.
    const over = { value: "", seconds: 0, isSecure: isEncrypted(request) };
    reply.header("set-cookie", setCookie("login", headers, over));
    if (Object.values(query as object).some((value) => typeof value !== "string")) {
      return reply.code(400).type("text/plain").send("a parameter is given twice; sign in again");
    }
    const cookie = readCookie("login", headers) ?? "";
    const finished = await login.finish(cookie, query as Record<string, string>);
    if (!finished.ok) return fail(reply, parts, { request, failure: finished });
    const opened = await openSession(parts, request, finished.accessToken);
    if (!opened.ok) {
      const reason = `the access token is refused: ${opened.code}`;
      const problem = opened.code === "admin_only" ? "role" : "token";
      return fail(reply, parts, { request, failure: { ok: false, problem, reason } });
    }
    if (opened.value.identity.subject !== finished.subject) {
      const reason = "access token and ID token name different people";
      return fail(reply, parts, { request, failure: { ok: false, problem: "token", reason } });
    }
    reply.header("set-cookie", opened.value.setCookie);
    return redirect(reply, finished.to);
  });
}

interface Failed {
  readonly request: FastifyRequest;
  readonly failure: Omit<LoginFailure, "problem"> & {
    readonly problem: LoginFailure["problem"] | "role";
  };
}

function fail(
  reply: FastifyReply,
  parts: LoginRouteParts,
  { request, failure: { problem, reason } }: Failed,
): FastifyReply {
  // A client without a token can fail to sign in at any rate.
  parts.warnings.warn("a sign-in at the identity server failed", { problem, reason });
  request.server.connections.of(request.raw.socket)?.refused();
  noteSignIn(parts, request, refusal("invalid_token"));
  return redirect(reply, `/ui?login=${problem}`);
}

function redirect(reply: FastifyReply, to: string): FastifyReply {
  const headers = { "cache-control": "no-store", "referrer-policy": "no-referrer", location: to };
  return reply.code(303).headers(headers).send();
}

function redirectUri(request: FastifyRequest): string {
  const { host = "localhost" } = request.headers;
  return `${isEncrypted(request) ? "https" : "http"}://${host}${callback}`;
}

/** Only own pages: otherwise a link could send people to any site after they have signed in. */
function ownPage(to: string): string {
  const isPlain = to.length <= pageCharsMax && /^\/ui(?:[/?][\x21-\x7e]*)?$/.test(to);
  const { pathname } = new URL(isPlain ? to : "/ui", "http://own");
  const isPage = /^\/ui(?:\/|$)/.test(pathname) && !pathname.startsWith(path);
  return isPlain && isPage ? to : "/ui";
}
