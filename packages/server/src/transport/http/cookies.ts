/** The cookie of a browser's session: its name, how it is read and how it is set. */
import type { IncomingHttpHeaders } from "node:http";

/** What a call of the console says beside the cookie; pages of other sites cannot send it. */
export const csrfHeader = "x-codeq-csrf";

/** Browsers do not tell ports apart, so each port of a host has a cookie of its own. */
function nameOf({ host = "" }: IncomingHttpHeaders): string {
  const port = /:(\d+)$/.exec(host)?.[1];
  return port === undefined ? "codeq-session" : `codeq-session-${port}`;
}

export function sessionCookie(headers: IncomingHttpHeaders): string | undefined {
  const start = `${nameOf(headers)}=`;
  for (const part of (headers.cookie ?? "").split(";")) {
    const text = part.trim();
    if (text.startsWith(start)) return text.slice(start.length);
  }
  return undefined;
}

export function setSessionCookie(
  headers: IncomingHttpHeaders,
  cookie: { readonly value: string; readonly seconds: number; readonly isSecure: boolean },
): string {
  const secure = cookie.isSecure ? "; Secure" : "";
  const life = `Max-Age=${cookie.seconds}`;
  return `${nameOf(headers)}=${cookie.value}; Path=/; HttpOnly; SameSite=Strict; ${life}${secure}`;
}
