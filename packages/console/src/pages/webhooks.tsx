/** Callbacks that did not arrive: endpoints that fail, deliveries that were given up; send them again. */
import type { JSX } from "preact";
import { ask, tenant } from "../api.ts";
import { plural, shortId } from "../format.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Act } from "../parts/act.tsx";
import { Given, Nothing, Panel, Pending, Time } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { useQuery } from "../query.ts";
import { href } from "../router.ts";
import { sendCall, sendNow } from "../send-call.ts";
import { mayAct } from "../session.ts";
import { useStore } from "../store.ts";
import { SigningSecrets } from "./signing-secrets.tsx";
import { redeliver } from "./task-actions.tsx";

interface Endpoint {
  readonly url: string;
  readonly disabled: boolean;
  readonly failingSince: string;
  readonly error: string;
  readonly disabledAt?: string;
}

interface FailedDelivery {
  readonly taskId: string;
  readonly command?: string;
  readonly url?: string;
  readonly failedAt?: string;
  readonly error?: string;
}

const base = "/v1/codeq/admin/webhooks";

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
  const of = useStore(tenant);
  const load = (): Promise<{ endpoints: Endpoint[] }> => ask({ path: `${base}/endpoints` });
  const { data, error } = useQuery(`endpoints:${of}`, load, { everyMs: 10_000 });
  return (
    <Panel title="Endpoints that fail" id="endpoints">
      {data === undefined ? (
        <Pending error={error} />
      ) : data.endpoints.length === 0 ? (
        <Nothing icon="check" title="Every endpoint takes its callbacks" />
      ) : (
        <ul class="list">
          {data.endpoints.map((endpoint) => (
            <EndpointLine key={endpoint.url} endpoint={endpoint} />
          ))}
        </ul>
      )}
    </Panel>
  );
}

function EndpointLine({ endpoint }: { readonly endpoint: Endpoint }): JSX.Element {
  const { url, disabled, failingSince, error } = endpoint;
  return (
    <li>
      <span class={disabled ? "bad" : "warn"}>
        <Icon name={disabled ? "block" : "warn"} />
      </span>
      <span>
        <b>
          <Given text={url} max={200} />
        </b>{" "}
        {disabled ? "is disabled; it fails" : "fails"} since <Time at={failingSince} />
      </span>
      {disabled ? (
        <Act class="btn sm" aria-label={`Enable ${url}`} onClick={() => enable(url)}>
          Enable
        </Act>
      ) : null}
      <span class="sub">
        <Given text={error} max={300} />
      </span>
    </li>
  );
}

function enable(url: string): void {
  const call = { method: "POST", path: `${base}/endpoints/enable`, body: { url } } as const;
  sendNow(call, "Callbacks go to the endpoint again", "endpoints");
}

function FailedDeliveries(): JSX.Element {
  const of = useStore(tenant);
  const load = (): Promise<{ failed: FailedDelivery[]; next?: string }> =>
    ask({ path: `${base}/failed`, query: { limit: "100" } });
  const { data, error } = useQuery(`given-up:${of}`, load, { everyMs: 10_000 });
  const failed = data?.failed ?? [];
  return (
    <Panel
      title="Callbacks that were given up"
      id="given-up"
      note={data === undefined ? undefined : plural(failed.length, "callback")}
      actions={
        failed.length === 0 ? undefined : (
          <Act class="btn sm primary" onClick={() => openDialog(RedeliverAll)}>
            <Icon name="replay" small />
            Send all again…
          </Act>
        )
      }
    >
      {data === undefined ? (
        <Pending error={error} />
      ) : failed.length === 0 ? (
        <Nothing icon="check" title="No callback was given up" />
      ) : (
        <ul class="list">
          {failed.map((each) => (
            <li key={each.taskId}>
              <span class="bad">
                <Icon name="failed" />
              </span>
              <span class="trunc">
                <a class="mono" href={href(`/tasks/${each.taskId}`)}>
                  {shortId(each.taskId)}
                </a>{" "}
                <Given text={each.url ?? ""} max={200} />
              </span>
              <Act
                class="btn sm"
                aria-label={`Send the callback of ${each.taskId} again`}
                onClick={() => redeliver(each.taskId)}
              >
                Send again
              </Act>
              <span class="sub">
                <Given text={each.error ?? ""} max={200} />{" "}
                {each.failedAt === undefined ? null : <Time at={each.failedAt} />}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function RedeliverAll(): JSX.Element {
  const body = { since: "1970-01-01T00:00:00Z" };
  const call = { method: "POST", path: `${base}/redeliver`, body } as const;
  return (
    <ActionDialog
      title="Send all given-up callbacks again?"
      about="Each gets all its tries again, with the same body and the same id, so receivers can tell repeats."
      button="Send all again"
      icon={<Icon name="replay" />}
      call={call}
      run={() => sendCall(call, "The callbacks are under way", "given-up")}
    />
  );
}
