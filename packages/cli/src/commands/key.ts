/** `key`: API keys of the token's tenant. The text of a key is shown once, when it is created. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { localMoment } from "../terminal/units.ts";

interface KeyFields {
  readonly id: string;
  readonly name: string;
  readonly tenantId?: string;
  readonly role?: string;
  readonly scopes?: readonly string[];
  readonly eventTypes?: readonly string[];
  readonly createdAt?: string;
  readonly expiresAt?: string;
  readonly lastUsedAt?: string;
}

const pageKeys = 200;

export async function create(call: Call): Promise<number> {
  const { options } = call;
  const expiresMs = options.durationMs("expires-in");
  if (expiresMs !== undefined && options.has("expires-at")) {
    throw usageError("pass --expires-in or --expires-at, not both");
  }
  const role = options.text("role");
  if (!options.has("scopes") && (role === undefined || role === "none")) {
    throw usageError(
      "a key needs scopes or a role",
      "for a producer pass --scopes create, for a worker --scopes claim,heartbeat,nack,abandon,result",
    );
  }
  const body = JSON.stringify({
    name: call.word(0),
    scopes: scopesOf(options.list("scopes")),
    eventTypes: options.list("events"),
    role,
    expiresAt: options.instant("expires-at"),
    expiresInSeconds: expiresMs === undefined ? undefined : Math.ceil(expiresMs / 1000),
  });
  const api = await call.api();
  const { text } = await api.post("/admin/keys", body);
  if (call.json) {
    call.print(text);
    return exitCodes.ok.code;
  }
  const { id, token } = JSON.parse(text) as KeyFields & { token: string };
  call.print(token);
  call.note(`key ${id} created; copy it now, it will not be shown again`);
  return exitCodes.ok.code;
}

/** `claim` is short for `codeq:claim`. */
function scopesOf(names: readonly string[]): string[] {
  return names.map((name) => (name.includes(":") ? name : `codeq:${name}`));
}

export async function list(call: Call): Promise<number> {
  const api = await call.api();
  const keys: KeyFields[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const from = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
    const { text } = await api.get(`/admin/keys?limit=${pageKeys}${from}`);
    const page = JSON.parse(text) as { keys: KeyFields[]; next?: string };
    keys.push(...page.keys);
    after = page.next;
  }
  if (call.json) {
    call.printJson({ keys });
    return exitCodes.ok.code;
  }
  if (keys.length === 0) call.print("there are no keys yet; create one with codeq key create");
  else for (const line of tableLines(columns, keys, call.style)) call.print(line);
  return exitCodes.ok.code;
}

const columns: readonly Column<KeyFields>[] = [
  { title: "ID", show: ({ id }) => id },
  { title: "NAME", show: ({ name }) => name },
  { title: "ROLE", show: ({ role }) => role ?? "" },
  {
    title: "SCOPES",
    show: ({ scopes = [] }) => scopes.map((scope) => scope.replace("codeq:", "")).join(","),
  },
  { title: "COMMANDS", show: ({ eventTypes = [] }) => eventTypes.join(",") },
  { title: "EXPIRES", show: ({ expiresAt }) => momentOr(expiresAt, "never") },
  { title: "LAST USED", show: ({ lastUsedAt }) => momentOr(lastUsedAt, "never") },
];

function momentOr(text: string | undefined, without: string): string {
  return text === undefined ? without : localMoment(text);
}

export async function revoke(call: Call): Promise<number> {
  const id = call.word(0);
  const api = await call.api();
  await api.delete(`/admin/keys/${encodeURIComponent(id)}`);
  if (call.json) call.printJson({ id, revoked: true });
  else call.print(`${id} is revoked`);
  return exitCodes.ok.code;
}
