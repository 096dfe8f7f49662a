/** The secrets that sign callbacks: make a new one while the old one still signs, and revoke one. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, tenant } from "../api.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { showOnce } from "../overlays/shown-once.tsx";
import { Act } from "../parts/act.tsx";
import { Choices, Given, Nothing, Panel, Pending, Time } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { invalidate, useQuery } from "../query.ts";
import { sendCall } from "../send-call.ts";
import { useStore } from "../store.ts";

interface Secret {
  readonly id: string;
  readonly createdAt?: string;
  readonly createdBy?: string;
  readonly validUntil?: string;
}

const base = "/v1/codeq/admin/webhooks/secrets";

export function SigningSecrets(): JSX.Element {
  const of = useStore(tenant);
  const load = (): Promise<{ secrets: readonly Secret[] }> => ask({ path: base });
  const { data, error } = useQuery(`secrets:${of}`, load, { everyMs: 30_000 });
  return (
    <Panel
      title="Secrets that sign callbacks"
      id="secrets"
      actions={
        <Act class="btn sm" onClick={() => openDialog(Rotate)}>
          <Icon name="plus" small />
          New secret…
        </Act>
      }
    >
      {data === undefined ? (
        <Pending error={error} />
      ) : data.secrets.length === 0 ? (
        <Nothing icon="shield" title="The secret of the configuration signs">
          <p>A secret of the tenant replaces it.</p>
        </Nothing>
      ) : (
        <ul class="list">
          {data.secrets.map((secret) => (
            <li key={secret.id}>
              <Icon name="shield" />
              <span>
                <code>{secret.id}</code>{" "}
                {secret.validUntil === undefined ? (
                  "signs"
                ) : (
                  <>
                    signs until <Time at={secret.validUntil} />
                  </>
                )}
              </span>
              <Act
                class="btn sm danger"
                aria-label={`Revoke ${secret.id}`}
                onClick={() => askRevoke(secret)}
              >
                Revoke…
              </Act>
              <span class="sub">
                {secret.createdAt === undefined ? null : (
                  <>
                    created <Time at={secret.createdAt} /> by{" "}
                    <Given text={secret.createdBy ?? ""} max={80} />
                  </>
                )}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function askRevoke({ id }: Secret): void {
  const call = { method: "DELETE", path: `${base}/${encodeURIComponent(id)}` } as const;
  openDialog(() => (
    <ActionDialog
      title="Revoke this secret?"
      about="Receivers that know only this secret refuse callbacks from now on."
      button="Revoke secret"
      isFinal
      confirm={id}
      call={call}
      run={() => sendCall(call, "Revoked the secret", "secrets")}
    />
  ));
}

function Rotate(): JSX.Element {
  const [seconds, setSeconds] = useState<"0" | "3600" | "86400" | "604800">("86400");
  const call = { method: "POST", path: base, body: { overlapSeconds: Number(seconds) } } as const;
  return (
    <ActionDialog
      title="Create a secret?"
      about="Callbacks are signed with the new secret from now on, and with the one before it for a while."
      button="Create secret"
      icon={<Icon name="shield" />}
      call={call}
      run={async () => {
        const { secret } = await ask<{ secret: string }>(call);
        invalidate("secrets");
        showOnce({ title: "The new secret", label: "The secret", text: secret });
      }}
    >
      <Choices
        label="How long the secret before it signs as well"
        options={[
          ["0", "Not at all"],
          ["3600", "1 hour"],
          ["86400", "1 day"],
          ["604800", "7 days"],
        ]}
        value={seconds}
        onChange={setSeconds}
      />
    </ActionDialog>
  );
}
