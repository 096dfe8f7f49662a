/** URLs that are notified when queues have work: subscribe one, renew it, delete it. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, callOf, tenant } from "../api.ts";
import { plural } from "../format.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Act } from "../parts/act.tsx";
import { Choices, Given, Nothing, Panel, Pending, Time } from "../parts/basics.tsx";
import { CardTable, num } from "../parts/card-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { TextField } from "../parts/text-field.tsx";
import { useQuery } from "../query.ts";
import { sendCall, sendNow } from "../send-call.ts";
import { useStore } from "../store.ts";

type Subscription = ItemOf<"GET /admin/subscriptions">;

export function Subscriptions(): JSX.Element {
  const of = useStore(tenant);
  const load = () => ask(callOf("GET /admin/subscriptions", { query: { limit: 200 } }));
  const { data, error } = useQuery(`subscriptions:${of}`, load, { everyMs: 10_000 });
  const all = data?.subscriptions ?? [];
  return (
    <>
      <PageHead
        title="Subscriptions"
        about="A subscribed URL gets a POST when a queue has work, so that its worker can claim it."
      >
        <Act class="btn primary" onClick={() => openDialog(Subscribe)}>
          <Icon name="plus" />
          Subscribe a URL
        </Act>
      </PageHead>
      <Panel
        title="Subscribed URLs"
        id="subscriptions"
        note={
          data === undefined
            ? undefined
            : `${data.next === undefined ? "" : "the first "}${plural(all.length, "subscription")}`
        }
      >
        {data === undefined ? (
          <Pending error={error} />
        ) : all.length === 0 ? (
          <Nothing icon="webhooks" title="Nobody has subscribed">
            <p>Workers that hold a connection or poll need no subscription.</p>
          </Nothing>
        ) : (
          <SubscriptionTable rows={all} />
        )}
      </Panel>
    </>
  );
}

function SubscriptionTable({ rows }: { readonly rows: readonly Subscription[] }): JSX.Element {
  return (
    <CardTable heads={["URL", "Queues", "Delivery", num("Ends")]} hasActions>
      {rows.map((row) => (
        <tr key={row.subscriptionId} data-row="">
          <td class="full two">
            <code class="trunc">
              <Given text={row.callbackUrl} max={200} />
            </code>
            <span class="sub">
              by <Given text={row.createdBy} max={80} />
            </span>
          </td>
          <td data-l="Queues">
            <Given
              text={row.eventTypes.includes("*") ? "all" : row.eventTypes.join(", ")}
              max={200}
            />
          </td>
          <td data-l="Delivery">
            {modes[row.deliveryMode] ?? row.deliveryMode}
            {row.groupId === undefined ? null : (
              <>
                {" "}
                <Given text={row.groupId} max={80} />
              </>
            )}
          </td>
          <td class="num" data-l="Ends">
            <Time at={row.expiresAt} />
          </td>
          <td class="last">
            <span class="row">
              <Act
                class="btn sm"
                aria-label={`Renew ${row.callbackUrl}`}
                onClick={() => renew(row)}
              >
                Renew
              </Act>
              <Act
                class="btn sm danger"
                aria-label={`Delete ${row.callbackUrl}`}
                onClick={() => askDelete(row)}
              >
                Delete…
              </Act>
            </span>
          </td>
        </tr>
      ))}
    </CardTable>
  );
}

const modes: Readonly<Record<string, string>> = {
  fanout: "to every subscriber",
  group: "by turns in group",
  hash: "to one subscriber by the minute",
};

const renewSeconds = 24 * 60 * 60;

function renew({ subscriptionId: id }: Subscription): void {
  const given = { params: { id }, body: { ttlSeconds: renewSeconds } };
  const call = callOf("POST /admin/subscriptions/:id/heartbeat", given);
  sendNow(call, "Renewed for 24 hours", "subscriptions");
}

function askDelete({ subscriptionId: id, callbackUrl }: Subscription): void {
  const call = callOf("DELETE /admin/subscriptions/:id", { params: { id } });
  openDialog(() => (
    <ActionDialog
      title="Delete this subscription?"
      about={`${callbackUrl.slice(0, 200)} is no longer notified when queues have work.`}
      button="Delete subscription"
      isFinal
      call={call}
      run={() => sendCall(call, "Deleted the subscription", "subscriptions")}
    />
  ));
}

function Subscribe(): JSX.Element {
  const [url, setUrl] = useState("");
  const [queues, setQueues] = useState("");
  const [group, setGroup] = useState("");
  const [seconds, setSeconds] = useState<"3600" | "86400" | "604800">("86400");
  const eventTypes = queues.split(/[\s,]+/).filter((each) => each !== "");
  const body = {
    callbackUrl: url.trim(),
    ...(eventTypes.length === 0 ? {} : { eventTypes }),
    ...(group.trim() === "" ? {} : { deliveryMode: "group" as const, groupId: group.trim() }),
    ttlSeconds: Number(seconds),
  };
  const call = callOf("POST /admin/subscriptions", { body });
  return (
    <ActionDialog
      title="Subscribe a URL"
      about="The URL gets a POST when a queue gets its first ready task. The POST contains no task data."
      button="Subscribe"
      icon={<Icon name="plus" />}
      call={call}
      isReady={/^https?:\/\/\S+$/.test(url.trim())}
      run={() => sendCall(call, "Subscribed the URL", "subscriptions")}
    >
      <TextField
        label="URL, with http or https"
        isCode
        inputMode="url"
        value={url}
        onChange={setUrl}
      />
      <TextField
        label="Queues, separated by commas; empty for all"
        isCode
        value={queues}
        onChange={setQueues}
      />
      <TextField
        label="Group whose members take turns; empty for none"
        value={group}
        onChange={setGroup}
      />
      <Choices
        label="How long it lasts"
        options={[
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
