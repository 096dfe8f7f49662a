/** `key`: API keys of the token's tenant. The text of a key is shown once, when it is created. */
import { type ItemOf, type ReplyOf, rotateKey } from "@codeq/client/command-line";
import * as contract from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import type { Column } from "../../terminal/table.ts";
import { momentOr } from "../../terminal/units.ts";

export async function create(call: Call): Promise<void> {
  const { options } = call;
  if (options.has("expires-in") && options.has("expires-at")) {
    throw usageError("pass --expires-in or --expires-at, not both");
  }
  const wanted = contract.bodyOf(call, "POST /admin/keys");
  if (!options.has("scopes") && (wanted.role === undefined || wanted.role === "none")) {
    throw usageError(
      "a key needs scopes or a role",
      "for a producer pass --scopes create, for a worker --scopes claim,heartbeat,nack,abandon,result",
    );
  }
  const body = { ...wanted, name: call.word(0), scopes: scopesOf(options.list("scopes")) };
  printKey(call, (await contract.ask(call, "POST /admin/keys", { body })).value);
}

export async function rotate(call: Call): Promise<void> {
  const old = call.word(0);
  printKey(call, await rotateKey(contract.asker(call), old));
  if (!call.options.has("revoke")) {
    call.note(`${old} stays valid; when nothing uses it any more, run codeq key revoke ${old}`);
    return;
  }
  await contract.ask(call, "DELETE /admin/keys/:id", { params: { id: old } });
  call.note(`${old} is revoked`);
}

function printKey(call: Call, key: ReplyOf<"POST /admin/keys">): void {
  if (call.json) call.printJson(key);
  else call.print(key.token);
  call.note(`key ${key.id} created; copy it now, it will not be shown again`);
}

/** `claim` is short for `codeq:claim`. */
function scopesOf(names: readonly string[]): string[] {
  return names.map((name) => (name.includes(":") ? name : `codeq:${name}`));
}

const columns: readonly Column<ItemOf<"GET /admin/keys">>[] = [
  { title: "ID", show: ({ id }) => id },
  { title: "NAME", show: ({ name }) => name },
  { title: "ROLE", show: ({ role }) => role },
  {
    title: "SCOPES",
    show: ({ scopes }) => scopes.map((scope) => scope.replace("codeq:", "")).join(","),
  },
  { title: "COMMANDS", show: ({ eventTypes }) => eventTypes.join(",") },
  { title: "EXPIRES", show: ({ expiresAt }) => momentOr(expiresAt, "never") },
  { title: "LAST USED", show: ({ lastUsedAt }) => momentOr(lastUsedAt, "never") },
];

export function list(call: Call): Promise<void> {
  const none = "there are no keys yet; create one with codeq key create";
  return contract.showAll(call, "GET /admin/keys", { columns, none });
}

export function revoke(call: Call): Promise<void> {
  const id = call.word(0);
  return contract.remove(call, ["DELETE /admin/keys/:id", { params: { id } }], {
    json: { id, revoked: true },
    done: `${id} is revoked`,
  });
}
