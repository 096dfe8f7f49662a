/** Who is signed in. The token itself never reaches a script: the server keeps it in a cookie. */
import { connection, setCsrf, tenant } from "./api.ts";
import { forgetAll } from "./query.ts";
import { createStore, readKept } from "./store.ts";

export interface Session {
  readonly subject: string;
  readonly tenantId: string;
  readonly role: "viewer" | "admin" | "operator";
  /** Whether the server shows payloads and results to this session. */
  readonly payloads: "shown" | "hidden";
  readonly csrf: string;
  readonly expiresAt: string;
  readonly env: string;
  readonly version: string;
  readonly durability: string;
  readonly shards: number;
  /** Where a trace can be looked at, with {traceId} in it. */
  readonly traceUrl?: string;
}

/** Undefined while it is not known; null when nobody is signed in. */
export const session = createStore<Session | null | undefined>(undefined);

/** Viewers look and change nothing; the server sees to that, too. */
export function mayAct(): boolean {
  return session.get()?.role !== "viewer";
}

/** Whether the server leaves payloads and results out for this session. */
export function hidesPayloads(): boolean {
  return session.get()?.payloads === "hidden";
}

export const readOnlyReason = "Your role is viewer: you can look at everything but change nothing";

/** Where people can sign in beside this page; undefined when there is no such place. */
export const identityServer = createStore<string | undefined>(undefined);

const path = "/ui/session";

/** Takes up the session of this browser, if there is one. */
export async function resume(): Promise<void> {
  try {
    const reply = await fetch(path, { credentials: "same-origin", cache: "no-store" });
    const body = (await reply.json()) as Session & { identityServer?: string };
    identityServer.set(body.identityServer);
    session.set(reply.ok ? begin(body) : null);
  } catch {
    // Without a server there is no session; the banner says that it is away.
    connection.set({ ...connection.get(), state: "offline" });
    if (session.get() === undefined) session.set(null);
  }
}

/** What is wrong, in words; undefined when the session has begun. */
export async function signIn(token: string): Promise<string | undefined> {
  try {
    const headers = { authorization: `Bearer ${token.trim()}` };
    const reply = await fetch(path, { method: "POST", headers, credentials: "same-origin" });
    const body = (await reply.json()) as Session & { error: string };
    if (!reply.ok) return refused(reply, body.error);
    session.set(begin(body));
    forgetAll();
    return undefined;
  } catch {
    return "The server does not answer. Check that it runs, then try again.";
  }
}

function refused({ status, headers }: Response, error: string): string {
  if (headers.get("codeq-error") === "admin_only") {
    return "This key has no role for the console. Create one with `codeq keys create --tenant acme --name console --role admin`, or with the role viewer.";
  }
  return status === 401 ? `The server does not know this key or token (${error}).` : error;
}

function begin(found: Session): Session {
  setCsrf(found.csrf);
  const asked = new URLSearchParams(window.location.search).get("tenant");
  if (found.role === "operator") tenant.set(asked ?? readKept("tenant") ?? "");
  connection.set({ state: "online", answeredMs: Date.now() });
  return found;
}

export async function signOut(): Promise<void> {
  const csrf = session.get()?.csrf ?? "";
  await fetch(path, { method: "DELETE", headers: { "x-codeq-csrf": csrf } });
  session.set(null);
}
