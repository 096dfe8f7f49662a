/** URLs that are notified when queues have work: subscribe one, renew it, delete it. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { plural } from "../format.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Given, Nothing, PageHead, Panel, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { Choices, TextField } from "../parts/fields.tsx";
import { actions, CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { useAnswer } from "../query.ts";
import { sendCall, sendNow } from "../toasts.tsx";

type Subscription = ItemOf<"GET /admin/subscriptions">;

export function Subscriptions(): JSX.Element {
  const request = callOf("GET /admin/subscriptions", { query: { limit: 200 } });
  const { data, error } = useAnswer("subscriptions", request, { everyMs: 10_000 });
  const first = data?.next === undefined ? "" : "the first ";
  return (
    <>
      <PageHead
        title="Subscriptions"
        about="A subscribed URL gets a POST when a queue has work, so that its worker can claim it."
      >
        <Act class="primary" icon="plus" onClick={() => openDialog(<Subscribe />)}>
          Subscribe a URL
        </Act>
      </PageHead>
      <Panel
        title="Subscribed URLs"
        id="subscriptions"
        note={data && first + plural(data.subscriptions.length, "subscription")}
      >
        <CardTable
          rows={data?.subscriptions}
          error={error}
          id={({ subscriptionId }) => subscriptionId}
          columns={columns}
          nothing={
            <Nothing icon="webhooks" title="No URL is subscribed">
              <p>Workers that hold a connection or poll need no subscription.</p>
            </Nothing>
          }
        />
      </Panel>
    </>
  );
}

const modes: Readonly<Record<string, string>> = {
  fanout: "to every subscriber",
  group: "by turns in group",
  hash: "to one subscriber by the minute",
};

const columns: readonly Column<Subscription>[] = [
  title(
    "URL",
    ({ callbackUrl, createdBy }) => (
      <>
        <code>
          <Given text={callbackUrl} max={200} />
        </code>
        <span class="sub">
          by <Given text={createdBy} max={80} />
        </span>
      </>
    ),
    "full two",
  ),
  column(
    "Queues",
    ({ eventTypes }) => (
      <Given text={eventTypes.includes("*") ? "all" : eventTypes.join(", ")} max={200} />
    ),
    "any",
  ),
  column(
    "Delivery",
    ({ deliveryMode, groupId = "" }) => (
      <>
        {modes[deliveryMode] ?? deliveryMode} <Given text={groupId} max={80} />
      </>
    ),
    "any",
  ),
  num("Ends", ({ expiresAt }) => <Time at={expiresAt} />),
  actions((row) => (
    <span class="row">
      <Act class="sm" aria-label={`Renew ${row.callbackUrl}`} onClick={() => renew(row)}>
        Renew
      </Act>
      <Act
        class="sm danger"
        aria-label={`Delete ${row.callbackUrl}`}
        onClick={() => askDelete(row)}
      >
        Delete…
      </Act>
    </span>
  )),
];

const renewSeconds = 24 * 60 * 60;

function renew({ subscriptionId: id }: Subscription): void {
  const given = { params: { id }, body: { ttlSeconds: renewSeconds } };
  const call = callOf("POST /admin/subscriptions/:id/heartbeat", given);
  sendNow(call, "Renewed for 24 hours", "subscriptions");
}

function askDelete({ subscriptionId: id, callbackUrl }: Subscription): void {
  const call = callOf("DELETE /admin/subscriptions/:id", { params: { id } });
  openDialog(
    <ActionDialog
      title="Delete this subscription?"
      about={`${callbackUrl.slice(0, 200)} is no longer notified when queues have work.`}
      button="Delete subscription"
      isFinal
      call={call}
      run={() => sendCall(call, "Deleted the subscription", "subscriptions")}
    />,
  );
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
      icon="plus"
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
        options={{ "3600": "1 hour", "86400": "1 day", "604800": "7 days" }}
        value={seconds}
        onChange={setSeconds}
      />
    </ActionDialog>
  );
}
