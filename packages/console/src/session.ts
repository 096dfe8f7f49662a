/** The signed-in user. No script sees the token: the server keeps it in a cookie that scripts cannot read. */
import type { WireOf } from "@codeq/protocol";
import type { Session as SessionShape, SignedOut } from "@codeq/protocol/api";
import { connection, setCsrf, tenant } from "./api.ts";
import { forgetAll } from "./query.ts";
import { createStore, readKept } from "./store.ts";

export type Session = WireOf<typeof SessionShape>;
type Found = Session | WireOf<typeof SignedOut>;

/** Undefined while loading; null when no user is signed in. */
export const session = createStore<Session | null | undefined>(undefined);

/** The server also refuses changes by viewers. */
export function mayAct(): boolean {
  return session.get()?.role !== "viewer";
}

export function hidesPayloads(): boolean {
  return session.get()?.payloads === "hidden";
}

export const readOnlyReason = "Your role is viewer: you can look at everything but change nothing";

/** The identity server for single sign-on, if one is configured. */
export const identityServer = createStore<string | undefined>(undefined);

const path = "/ui/session";
const deadlineMs = 10_000;

async function send(init: RequestInit): Promise<Response> {
  const signal = AbortSignal.timeout(deadlineMs);
  return await fetch(path, { credentials: "same-origin", cache: "no-store", signal, ...init });
}

export async function resume(): Promise<void> {
  try {
    const reply = await send({});
    const body = (await reply.json()) as Found;
    identityServer.set("error" in body ? body.identityServer : undefined);
    session.set("error" in body ? null : begin(body));
  } catch {
    // The server is down; the banner says so.
    connection.set({ ...connection.get(), state: "offline" });
    if (session.get() === undefined) session.set(null);
  }
}

/** Returns the problem in words; undefined after a successful sign-in. */
export async function signIn(token: string): Promise<string | undefined> {
  try {
    const headers = { authorization: `Bearer ${token.trim()}` };
    const reply = await send({ method: "POST", headers });
    const body = (await reply.json()) as Found;
    if ("error" in body) return refused(reply, body.error);
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
  if (found.role === "operator") tenant.set(asked ?? readKept("tenant", ""));
  connection.set({ state: "online", answeredMs: Date.now() });
  return found;
}

export async function signOut(): Promise<void> {
  const csrf = session.get()?.csrf ?? "";
  await send({ method: "DELETE", headers: { "x-codeq-csrf": csrf } });
  session.set(null);
}
