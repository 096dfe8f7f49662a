/** API keys: who may call, until when, last used when; create and revoke. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, tenant } from "../api.ts";
import { plural } from "../format.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { showOnce } from "../overlays/shown-once.tsx";
import { Given, Nothing, Pending, Time } from "../parts/basics.tsx";
import { CardTable, num } from "../parts/card-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { TextField } from "../parts/text-field.tsx";
import { invalidate, useQuery } from "../query.ts";
import { sendCall } from "../send-call.ts";
import { useStore } from "../store.ts";

interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly scopes: readonly string[];
  readonly eventTypes: readonly string[];
  readonly createdAt: string;
  readonly createdBy: string;
  readonly expiresAt?: string;
  readonly lastUsedAt?: string;
}

const path = "/v1/codeq/admin/keys";

export function ApiKeys(): JSX.Element {
  const of = useStore(tenant);
  const load = (): Promise<{ keys: ApiKey[] }> => ask({ path, query: { limit: "100" } });
  const { data, error } = useQuery(`keys:${of}`, load, { everyMs: 15_000 });
  if (data === undefined) return <Pending error={error} />;
  return (
    <>
      <PageHead
        title="API keys"
        about={
          <>
            {plural(data.keys.length, "key")}. The text of a key is shown once, when it is created.
          </>
        }
      >
        <button class="btn primary" type="button" onClick={() => openDialog(CreateKey)}>
          <Icon name="plus" />
          Create key
        </button>
      </PageHead>
      <section class="panel" aria-label="API keys">
        {data.keys.length === 0 ? (
          <Nothing icon="keys" title="No API keys">
            <p>Producers, workers and this console can sign in with one.</p>
          </Nothing>
        ) : (
          <KeyTable keys={data.keys} />
        )}
      </section>
    </>
  );
}

function KeyTable({ keys }: { readonly keys: readonly ApiKey[] }): JSX.Element {
  return (
    <CardTable
      heads={["Name", "Id", "Role", "Scopes", num("Created"), num("Last used"), num("Ends")]}
      hasActions
    >
      {keys.map((key) => (
        <tr key={key.id} data-row="">
          <td class="full name">
            <b>
              <Given text={key.name} max={100} />
            </b>
          </td>
          <td data-l="Id" class="full">
            <code>{key.id}</code>
          </td>
          <td data-l="Role">{key.role}</td>
          <td data-l="Scopes" class="full">
            {key.scopes.length === 0 ? <span class="faint">none</span> : key.scopes.join(", ")}
          </td>
          <td class="num" data-l="Created">
            <Time at={key.createdAt} />
          </td>
          <td class="num" data-l="Last used">
            {key.lastUsedAt === undefined ? (
              <span class="faint">never</span>
            ) : (
              <Time at={key.lastUsedAt} />
            )}
          </td>
          <td class="num" data-l="Ends">
            {key.expiresAt === undefined ? (
              <span class="faint">never</span>
            ) : (
              <Time at={key.expiresAt} />
            )}
          </td>
          <td>
            <div class="acts">
              <button
                class="btn sm danger"
                type="button"
                aria-label={`Revoke ${key.name}`}
                onClick={() => askRevoke(key)}
              >
                Revoke…
              </button>
            </div>
          </td>
        </tr>
      ))}
    </CardTable>
  );
}

function askRevoke(key: ApiKey): void {
  const call = { method: "DELETE", path: `${path}/${key.id}` } as const;
  openDialog(() => (
    <ActionDialog
      title={`Revoke ${key.name}?`}
      about="Whoever uses the key is refused from now on, on open streams too. A revoked key cannot be given back."
      button="Revoke key"
      isFinal
      confirm={key.name}
      call={call}
      run={() => sendCall(call, `Revoked ${key.name}`, "keys")}
    />
  ));
}

const kinds = {
  producer: { role: "none", scopes: ["codeq:create"] },
  worker: {
    role: "none",
    scopes: [
      "codeq:claim",
      "codeq:heartbeat",
      "codeq:abandon",
      "codeq:nack",
      "codeq:result",
      "codeq:subscribe",
    ],
  },
  viewer: { role: "viewer", scopes: [] },
  admin: { role: "admin", scopes: ["codeq:create"] },
} as const;
type Kind = keyof typeof kinds;

function CreateKey(): JSX.Element {
  const [name, setName] = useState("");
  const [kind, setKind] = useState<Kind>("producer");
  const [days, setDays] = useState("90");
  const [hidesPayloads, setHidesPayloads] = useState(false);
  const { role } = kinds[kind];
  const mayHide = kind === "viewer" || kind === "admin";
  const hidden = mayHide && hidesPayloads ? ["codeq:payloads-hidden"] : [];
  const scopes = [...kinds[kind].scopes, ...hidden];
  const expires = Number(days) > 0 ? { expiresInSeconds: Number(days) * 86_400 } : {};
  const worksOn = kind === "worker" ? { eventTypes: ["*"] } : {};
  const body = { name: name.trim(), role, scopes, ...worksOn, ...expires };
  const call = { method: "POST", path, body } as const;
  return (
    <ActionDialog
      title="Create an API key"
      button="Create key"
      call={call}
      isReady={name.trim() !== "" && /^\d{1,4}$/.test(days)}
      run={async () => {
        const { token } = await ask<{ token: string }>(call);
        invalidate("keys");
        showOnce({ title: `${name.trim()} was created`, label: "API key", text: token });
      }}
    >
      <TextField label="Name: what the key is for" value={name} onChange={setName} />
      <label class="field">
        <span>For</span>
        <select
          class="input"
          value={kind}
          onChange={(event) => setKind(event.currentTarget.value as Kind)}
        >
          <option value="producer">a producer: creates tasks</option>
          <option value="worker">a worker: claims tasks of all queues</option>
          <option value="viewer">a viewer: this console, without changing anything</option>
          <option value="admin">an admin: this console, and all of the tenant</option>
        </select>
      </label>
      {mayHide ? (
        <label class="opt">
          <input
            type="checkbox"
            checked={hidesPayloads}
            onChange={(event) => setHidesPayloads(event.currentTarget.checked)}
          />
          Hide payloads and results
        </label>
      ) : null}
      <TextField
        label="Ends after days; 0 for never"
        inputMode="numeric"
        value={days}
        onChange={setDays}
      />
    </ActionDialog>
  );
}
