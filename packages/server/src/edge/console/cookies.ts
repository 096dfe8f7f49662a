/** The cookies of a browser: their names, how they are read and how they are set. */
import type { IncomingHttpHeaders } from "node:http";

/** Required beside the cookie; pages of other sites cannot send this header. */
export const csrfHeader = "x-codeq-csrf";

const kinds = {
  session: { name: "codeq-session", rules: "Path=/; HttpOnly; SameSite=Strict" },
  // SameSite=Lax: the identity server is another site and redirects the browser back.
  login: { name: "codeq-login", rules: "Path=/ui/login; HttpOnly; SameSite=Lax" },
} as const;
type CookieKind = keyof typeof kinds;

/** Browsers ignore ports, so each port of a host has its own cookie name. */
function nameOf(kind: CookieKind, { host = "" }: IncomingHttpHeaders): string {
  const port = /:(\d+)$/.exec(host)?.[1];
  const { name } = kinds[kind];
  return port === undefined ? name : `${name}-${port}`;
}

export function readCookie(kind: CookieKind, headers: IncomingHttpHeaders): string | undefined {
  const start = `${nameOf(kind, headers)}=`;
  for (const part of (headers.cookie ?? "").split(";")) {
    const text = part.trim();
    if (text.startsWith(start)) return text.slice(start.length);
  }
  return undefined;
}

export function setCookie(
  kind: CookieKind,
  headers: IncomingHttpHeaders,
  cookie: { readonly value: string; readonly seconds: number; readonly isSecure: boolean },
): string {
  const secure = cookie.isSecure ? "; Secure" : "";
  const life = `Max-Age=${cookie.seconds}`;
  return `${nameOf(kind, headers)}=${cookie.value}; ${kinds[kind].rules}; ${life}${secure}`;
}
