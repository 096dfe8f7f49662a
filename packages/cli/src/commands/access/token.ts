/**
 * `token`: shows the token in use, its content and permissions, and creates tokens for the configuration of
 * a server.
 */
import type { Reply } from "@codeq/client/command-line";
import { type ApiClient, messageIn, noTaskId } from "../../api/api-client.ts";
import type { Call } from "../../call.ts";
import { CliError } from "../../cli-error.ts";
import { exitCodes } from "../../exit-codes.ts";
import { mask } from "../../profile/profile-file.ts";

/** Prints the token itself, for use in other programs. */
export async function show(call: Call): Promise<void> {
  const { connection } = await call.api();
  const as = call.options.has("worker") ? "worker" : "producer";
  const token = as === "worker" ? connection.workerToken : connection.producerToken;
  if (token === undefined) {
    throw new CliError(`there is no ${as} token for ${connection.baseUrl.value}`, {
      exit: "denied",
      next: `codeq auth set --${as}-token <token>`,
    });
  }
  if (call.json) call.printJson({ token: token.value, source: token.source, as });
  else call.print(token.value);
}

const given = { params: { id: noTaskId } };

interface Probe {
  readonly may: string;
  readonly ask: (api: ApiClient) => Promise<Reply>;
}

/** Requests that change nothing, and whose refusal for lack of rights differs from every other one. */
const probes: readonly Probe[] = [
  { may: "read tasks", ask: (api) => api.reply("GET /tasks/:id", given) },
  // Rights are checked before the body is looked at, and this one cannot be used.
  { may: "create tasks", ask: (api) => api.reply("POST /tasks", { body: "[]" }) },
  { may: "administer", ask: (api) => api.reply("GET /admin/queues", {}) },
  { may: "work", ask: (api) => api.reply("POST /tasks/:id/heartbeat", { ...given, body: {} }) },
];

/** Asks the server what the current tokens may do. */
export async function verify(call: Call): Promise<number> {
  const api = await call.api();
  const { connection } = api;
  const may: Record<string, boolean> = {};
  const reasons: string[] = [];
  for (const { may: name, ask } of probes) {
    const { status, text } = await ask(api);
    may[name] = status !== 401 && status !== 403;
    if (!may[name]) reasons.push(`${name}: ${messageIn(text)}`);
  }
  const anything = Object.values(may).some(Boolean);
  if (call.json) {
    call.printJson({ server: connection.baseUrl.value, may, reasons });
    return anything ? exitCodes.ok.code : exitCodes.denied.code;
  }
  const { producerToken, workerToken, baseUrl } = connection;
  call.print(`server    ${baseUrl.value} (${baseUrl.source})`);
  call.print(`producer  ${mask(producerToken?.value)} (${producerToken?.source})`);
  call.print(`worker    ${mask(workerToken?.value)} (${workerToken?.source})`);
  for (const [name, isAllowed] of Object.entries(may)) {
    call.print(`  ${isAllowed ? call.style.green("yes") : call.style.red("no ")}  ${name}`);
  }
  if (anything) return exitCodes.ok.code;
  throw new CliError(`the server accepts neither token (${reasons[0]})`, {
    exit: "denied",
    next: "pass another token with --token or CODEQ_TOKEN, or create one: codeq token create --help",
  });
}

/** Shows what is written in a token, without checking its signature. */
export async function decode(call: Call): Promise<void> {
  const given = call.word(0) || (await call.api()).connection.producerToken?.value || "";
  const found = readToken(given, call.host.clock.nowMs());
  if (call.json) call.printJson(found);
  else for (const line of decodedLines(found)) call.print(line);
}

interface DecodedToken {
  readonly kind: "jwt" | "api key" | "static";
  readonly header?: unknown;
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly keyId?: string;
  /** Only for a JWT with an expiry time. */
  readonly expired?: boolean;
  readonly note: string;
}

export function readToken(token: string, nowMs: number): DecodedToken {
  const [, keyId] = /^(cq_[0-9a-z]+)_[0-9A-Za-z_-]{16,}$/.exec(token) ?? [];
  if (keyId !== undefined) {
    return { kind: "api key", keyId, note: "codeq key list shows what it allows" };
  }
  const parts = token.split(".");
  const [header, claims] = parts.length === 3 ? parts.map(jsonPart) : [];
  if (header === undefined || claims === undefined) {
    return {
      kind: "static",
      note: "it has no content; the configuration of the server defines what it allows",
    };
  }
  const { exp } = claims;
  const ends = typeof exp === "number" ? { expired: exp * 1000 <= nowMs } : {};
  return { kind: "jwt", header, claims, ...ends, note: "the signature was not checked" };
}

function jsonPart(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    // Not a part of a JWT, which is an answer too.
    return undefined;
  }
}

function decodedLines({ kind, header, claims, keyId, expired, note }: DecodedToken): string[] {
  const ends = expired === undefined ? "" : expired ? ", expired" : ", not expired";
  return [
    `${kind}${keyId === undefined ? "" : ` ${keyId}`}${ends} (${note})`,
    ...(claims === undefined ? [] : [JSON.stringify({ header, claims }, undefined, 2)]),
  ];
}

const tokenBytes = 24;
const workerScopes = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];

/** Creates a token, and the setting with which a server accepts it; sends and stores nothing. */
export async function create(call: Call): Promise<void> {
  const { options, host } = call;
  const token = host.random(tokenBytes).toString("base64url");
  const tenantId = options.text("tenant") ?? "main";
  const subject = options.text("subject") ?? "codeq";
  const events = options.list("events");
  const isWorker = options.has("worker");
  const entry = isWorker
    ? {
        token,
        subject,
        scopes: workerScopes.map((scope) => `codeq:${scope}`),
        eventTypes: events.length === 0 ? ["*"] : events,
        raw: { tenantId },
      }
    : {
        token,
        subject,
        raw: { tenantId, ...(options.has("admin-role") ? { role: "ADMIN" } : {}) },
      };
  const variable = isWorker ? "WORKER_AUTH_CONFIG" : "PRODUCER_AUTH_CONFIG";
  if (call.json) call.printJson({ token, variable, config: [entry] });
  else {
    call.print(token);
    call.note(`to make a server accept the token, set ${variable}='${JSON.stringify([entry])}'`);
  }
}
