/** API keys; create and revoke a key. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, callOf } from "../api.ts";
import { plural } from "../format.ts";
import { ActionDialog, openDialog, showOnce } from "../overlays/dialog.tsx";
import { Given, Nothing, PageHead, Pending, Time } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { CheckBox, TextField } from "../parts/fields.tsx";
import { actions, CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { invalidate, useAnswer } from "../query.ts";
import { sendCall } from "../toasts.tsx";

type ApiKey = ItemOf<"GET /admin/keys">;

export function ApiKeys(): JSX.Element {
  const call = callOf("GET /admin/keys", { query: { limit: 100 } });
  const { data, error } = useAnswer("keys", call, { everyMs: 15_000 });
  if (data === undefined) return <Pending error={error} />;
  return (
    <>
      <PageHead
        title="API keys"
        about={`${plural(data.keys.length, "key")}. The text of a key is shown once, when it is created.`}
      >
        <Button class="primary" icon="plus" onClick={() => openDialog(<CreateKey />)}>
          Create key
        </Button>
      </PageHead>
      <section class="panel" aria-label="API keys">
        <CardTable
          rows={data.keys}
          id={({ id }) => id}
          columns={columns}
          nothing={
            <Nothing icon="keys" title="No API keys">
              <p>Producers, workers and this console can sign in with one.</p>
            </Nothing>
          }
        />
      </section>
    </>
  );
}

const never = <span class="faint">never</span>;

const columns: readonly Column<ApiKey>[] = [
  title("Name", ({ name }) => (
    <b class="short" title={name}>
      <Given text={name} max={100} />
    </b>
  )),
  column("Id", ({ id }) => <code>{id}</code>, "full"),
  column("Role", ({ role }) => role),
  column("Scopes", ({ scopes }) => scopes.join(", ") || <span class="faint">none</span>, "full"),
  num("Created", ({ createdAt }) => <Time at={createdAt} />),
  num("Last used", ({ lastUsedAt }) => <Time at={lastUsedAt} none={never} />),
  num("Ends", ({ expiresAt }) => <Time at={expiresAt} none={never} />),
  actions(
    (key) => (
      <div class="acts">
        <Button class="sm danger" aria-label={`Revoke ${key.name}`} onClick={() => askRevoke(key)}>
          Revoke…
        </Button>
      </div>
    ),
    "",
  ),
];

function askRevoke(key: ApiKey): void {
  const call = callOf("DELETE /admin/keys/:id", { params: { id: key.id } });
  openDialog(
    <ActionDialog
      title={`Revoke ${key.name}?`}
      about="The server refuses callers with this key from now on, on open streams too. A revoked key cannot be restored."
      button="Revoke key"
      isFinal
      confirm={key.name}
      call={call}
      run={() => sendCall(call, `Revoked ${key.name}`, "keys")}
    />,
  );
}

const work = ["claim", "heartbeat", "abandon", "nack", "result", "subscribe"];
const kinds = {
  producer: { role: "none", scopes: ["codeq:create"], about: "a producer: creates tasks" },
  worker: {
    role: "none",
    scopes: work.map((verb) => `codeq:${verb}`),
    about: "a worker: claims tasks of all queues",
  },
  viewer: {
    role: "viewer",
    scopes: [],
    about: "a viewer: this console, without changing anything",
  },
  admin: {
    role: "admin",
    scopes: ["codeq:create"],
    about: "an admin: this console, and all of the tenant",
  },
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
  const call = callOf("POST /admin/keys", { body });
  return (
    <ActionDialog
      title="Create an API key"
      button="Create key"
      call={call}
      isReady={name.trim() !== "" && /^\d{1,4}$/.test(days)}
      run={async () => {
        const { token } = await ask(call);
        invalidate("keys");
        showOnce(`${name.trim()} was created`, "API key", token);
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
          {Object.entries(kinds).map(([each, { about }]) => (
            <option key={each} value={each}>
              {about}
            </option>
          ))}
        </select>
      </label>
      {mayHide ? (
        <CheckBox class="opt" isOn={hidesPayloads} onChange={setHidesPayloads}>
          Hide payloads and results
        </CheckBox>
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
