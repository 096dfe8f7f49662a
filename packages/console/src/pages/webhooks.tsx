/** Webhooks that failed, with buttons that send them again, and the secrets that sign webhooks. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, callOf } from "../api.ts";
import { plural } from "../format.ts";
import { ActionDialog, openDialog, showOnce } from "../overlays/dialog.tsx";
import { Given, Line, List, Nothing, PageHead, Panel, TaskLink, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { Choices } from "../parts/fields.tsx";
import { invalidate, useAnswer } from "../query.ts";
import { mayAct } from "../session.ts";
import { sendCall, sendNow } from "../toasts.tsx";
import { redeliver } from "./tasks/task-actions.tsx";

type Endpoint = ItemOf<"GET /admin/webhooks/endpoints">;
type Secret = ItemOf<"GET /admin/webhooks/secrets">;

export function Webhooks(): JSX.Element {
  return (
    <>
      <PageHead
        title="Webhooks"
        about="Results are posted to the webhook of their task. Here is what did not arrive."
      />
      <Endpoints />
      <FailedDeliveries />
      {mayAct() ? <SigningSecrets /> : null}
    </>
  );
}

function Endpoints(): JSX.Element {
  const request = callOf("GET /admin/webhooks/endpoints");
  const { data, error } = useAnswer("endpoints", request, { everyMs: 10_000 });
  return (
    <Panel title="Endpoints that fail" id="endpoints">
      <List
        rows={data?.endpoints}
        error={error}
        nothing={<Nothing icon="check" title="Every endpoint takes its webhooks" />}
      >
        {(endpoint) => <EndpointLine key={endpoint.url} endpoint={endpoint} />}
      </List>
    </Panel>
  );
}

function EndpointLine({ endpoint }: { readonly endpoint: Endpoint }): JSX.Element {
  const { url, disabled, failingSince, error } = endpoint;
  return (
    <Line
      icon={disabled ? "block" : "warn"}
      tone={disabled ? "bad" : "warn"}
      sub={<Given text={error} max={300} />}
      action={
        disabled ? (
          <Act class="sm" aria-label={`Enable ${url}`} onClick={() => enable(url)}>
            Enable
          </Act>
        ) : null
      }
    >
      <b>
        <Given text={url} max={200} />
      </b>{" "}
      {disabled ? "is disabled; it fails" : "fails"} since <Time at={failingSince} />
    </Line>
  );
}

function enable(url: string): void {
  const call = callOf("POST /admin/webhooks/endpoints/enable", { body: { url } });
  sendNow(call, "Webhooks go to the endpoint again", "endpoints");
}

function FailedDeliveries(): JSX.Element {
  const request = callOf("GET /admin/webhooks/failed", { query: { limit: 100 } });
  const { data, error } = useAnswer("given-up", request, { everyMs: 10_000 });
  const sendAll = (
    <Act class="sm primary" icon="replay" onClick={() => openDialog(<RedeliverAll />)}>
      Send all again…
    </Act>
  );
  return (
    <Panel
      title="Webhooks that were given up"
      id="given-up"
      note={data && plural(data.failed.length, "webhook")}
      actions={data && data.failed.length > 0 ? sendAll : undefined}
    >
      <List
        rows={data?.failed}
        error={error}
        nothing={<Nothing icon="check" title="No webhook was given up" />}
      >
        {({ taskId, url, error: why, failedAt }) => (
          <Line
            key={taskId}
            icon="failed"
            tone="bad"
            isCut
            action={
              <Act
                class="sm"
                aria-label={`Send again: the webhook of ${taskId}`}
                onClick={() => redeliver(taskId)}
              >
                Send again
              </Act>
            }
            sub={
              <>
                <Given text={why} max={200} /> <Time at={failedAt} />
              </>
            }
          >
            <TaskLink id={taskId} /> <Given text={url} max={200} />
          </Line>
        )}
      </List>
    </Panel>
  );
}

function RedeliverAll(): JSX.Element {
  const body = { since: "1970-01-01T00:00:00Z" };
  const call = callOf("POST /admin/webhooks/redeliver", { body });
  return (
    <ActionDialog
      title="Send all given-up webhooks again?"
      about="Each gets all its tries again, with the same body and the same id, so receivers can tell repeats."
      button="Send all again"
      icon="replay"
      call={call}
      run={() => sendCall(call, "The webhooks are under way", "given-up")}
    />
  );
}

function SigningSecrets(): JSX.Element {
  const request = callOf("GET /admin/webhooks/secrets");
  const { data, error } = useAnswer("secrets", request, { everyMs: 30_000 });
  const create = (
    <Act class="sm" icon="plus" onClick={() => openDialog(<Rotate />)}>
      New secret…
    </Act>
  );
  return (
    <Panel title="Secrets that sign webhooks" id="secrets" actions={create}>
      <List
        rows={data?.secrets}
        error={error}
        nothing={
          <Nothing icon="shield" title="The secret of the configuration signs">
            <p>A secret of the tenant replaces it.</p>
          </Nothing>
        }
      >
        {(secret) => <SecretLine key={secret.id} secret={secret} />}
      </List>
    </Panel>
  );
}

function SecretLine({ secret }: { readonly secret: Secret }): JSX.Element {
  const { id, createdAt, createdBy = "", validUntil } = secret;
  const created = (
    <>
      created <Time at={createdAt} /> by <Given text={createdBy} max={80} />
    </>
  );
  return (
    <Line
      icon="shield"
      action={
        <Act class="sm danger" aria-label={`Revoke ${id}`} onClick={() => askRevoke(id)}>
          Revoke…
        </Act>
      }
      sub={createdAt === undefined ? null : created}
    >
      <code>{id}</code> signs{validUntil === undefined ? "" : " until "}
      <Time at={validUntil} />
    </Line>
  );
}

function askRevoke(id: string): void {
  const call = callOf("DELETE /admin/webhooks/secrets/:id", { params: { id } });
  openDialog(
    <ActionDialog
      title="Revoke this secret?"
      about="Receivers that know only this secret refuse webhooks from now on."
      button="Revoke secret"
      isFinal
      confirm={id}
      call={call}
      run={() => sendCall(call, "Revoked the secret", "secrets")}
    />,
  );
}

function Rotate(): JSX.Element {
  const [seconds, setSeconds] = useState<"0" | "3600" | "86400" | "604800">("86400");
  const body = { overlapSeconds: Number(seconds) };
  const call = callOf("POST /admin/webhooks/secrets", { body });
  return (
    <ActionDialog
      title="Create a secret?"
      about="Webhooks are signed with the new secret from now on, and with the one before it for a while."
      button="Create secret"
      icon="shield"
      call={call}
      run={async () => {
        const { secret } = await ask(call);
        invalidate("secrets");
        showOnce("The new secret", "The secret", secret);
      }}
    >
      <Choices
        label="How long the secret before it signs as well"
        options={{ "0": "Not at all", "3600": "1 hour", "86400": "1 day", "604800": "7 days" }}
        value={seconds}
        onChange={setSeconds}
      />
    </ActionDialog>
  );
}
