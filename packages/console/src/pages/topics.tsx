/** Topics: queues with a policy of their own; make, change and delete one. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, callOf, tenant } from "../api.ts";
import { count, duration, plural } from "../format.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Act } from "../parts/act.tsx";
import { Nothing, Panel, Pending, Time } from "../parts/basics.tsx";
import { CardTable, num } from "../parts/card-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { TextField } from "../parts/text-field.tsx";
import { useQuery } from "../query.ts";
import { href } from "../router.ts";
import { sendCall } from "../send-call.ts";
import { useStore } from "../store.ts";

type Topic = ItemOf<"GET /admin/topics">;

export function Topics(): JSX.Element {
  const of = useStore(tenant);
  const load = () => ask(callOf("GET /admin/topics", { query: { limit: 1000 } }));
  const { data, error } = useQuery(`topics:${of}`, load, { everyMs: 10_000 });
  return (
    <>
      <PageHead
        title="Topics"
        about="A topic gives a queue its own attempts, priorities, retention and limit of leases."
      >
        <Act class="btn primary" onClick={() => openDialog(() => <TopicDialog />)}>
          <Icon name="plus" />
          Create topic
        </Act>
      </PageHead>
      <Panel
        title="Topics"
        id="topics"
        note={data === undefined ? undefined : plural(data.topics.length, "topic")}
      >
        {data === undefined ? (
          <Pending error={error} />
        ) : data.topics.length === 0 ? (
          <Nothing icon="queues" title="No queue has a policy of its own">
            <p>Queues without a topic have the settings of the server.</p>
          </Nothing>
        ) : (
          <TopicTable rows={data.topics} />
        )}
      </Panel>
    </>
  );
}

function TopicTable({ rows }: { readonly rows: readonly Topic[] }): JSX.Element {
  return (
    <CardTable
      heads={[
        "Queue",
        num("Attempts"),
        "Priorities",
        num("Leases at most"),
        num("Kept"),
        "Dead letters also to",
        num("Changed"),
      ]}
      hasActions
    >
      {rows.map((topic) => (
        <TopicRow key={topic.topicName} topic={topic} />
      ))}
    </CardTable>
  );
}

function TopicRow({ topic }: { readonly topic: Topic }): JSX.Element {
  const { topicName: name, policy } = topic;
  const { maxConsumers = 0, retentionSeconds = 0 } = policy;
  return (
    <tr data-row="">
      <td class="full name">
        <a class="qname" href={href(`/queues/${encodeURIComponent(name)}`)}>
          <bdi>{name}</bdi>
        </a>
      </td>
      <td class="num" data-l="Attempts">
        {policy.maxAttempts}
      </td>
      <td data-l="Priorities">{policy.priorityTiers.join(", ")}</td>
      <td class="num" data-l="Leases at most">
        {maxConsumers === 0 ? "any" : count(maxConsumers)}
      </td>
      <td class="num" data-l="Kept">
        {retentionSeconds === 0 ? "default" : duration(retentionSeconds * 1000)}
      </td>
      <td data-l="Dead letters also to">
        <bdi>{policy.deadLetterTopicRef ?? "–"}</bdi>
      </td>
      <td class="num faint" data-l="Changed">
        <Time at={topic.updatedAt} />
      </td>
      <td class="last">
        <span class="row">
          <Act
            class="btn sm"
            aria-label={`Edit ${name}`}
            onClick={() => openDialog(() => <TopicDialog topic={topic} />)}
          >
            Edit
          </Act>
          <Act class="btn sm danger" aria-label={`Delete ${name}`} onClick={() => askDelete(topic)}>
            Delete…
          </Act>
        </span>
      </td>
    </tr>
  );
}

function askDelete({ topicName }: Topic): void {
  const call = callOf("DELETE /admin/topics/:topicName", {
    params: { topicName },
    query: { deletionPolicy: "Delete" },
  });
  openDialog(() => (
    <ActionDialog
      title={`Delete the topic of ${topicName}?`}
      about="The queue and its tasks stay, with the settings of the server."
      button="Delete topic"
      isFinal
      confirm={topicName}
      call={call}
      run={() => sendCall(call, `Deleted the topic of ${topicName}`, "topics")}
    />
  ));
}

const fields = [
  ["maxAttempts", "Attempts, 1 to 100"],
  ["tiers", "Priorities that tasks may have, separated by commas"],
  ["maxConsumers", "Leases at most; 0 for any number"],
  ["retentionSeconds", "Seconds that ended tasks are kept; 0 for the setting of the server"],
  ["deadLetterTopicRef", "Queue that gets a copy of every dead letter; empty for none"],
] as const;
type Field = (typeof fields)[number][0];

function TopicDialog({ topic }: { readonly topic?: Topic }): JSX.Element {
  const [name, setName] = useState(topic?.topicName ?? "");
  const [values, setValues] = useState<Readonly<Record<Field, string>>>({
    maxAttempts: String(topic?.policy.maxAttempts ?? 5),
    tiers: (topic?.policy.priorityTiers ?? [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).join(", "),
    maxConsumers: String(topic?.policy.maxConsumers ?? 0),
    retentionSeconds: String(topic?.policy.retentionSeconds ?? 0),
    deadLetterTopicRef: topic?.policy.deadLetterTopicRef ?? "",
  });
  const numbers = values.tiers.split(/[\s,]+/).filter((each) => each !== "");
  const body = {
    priorityTiers: numbers.map(Number),
    maxAttempts: Number(values.maxAttempts),
    maxConsumers: Number(values.maxConsumers),
    retentionSeconds: Number(values.retentionSeconds),
    deadLetterTopicRef: values.deadLetterTopicRef.trim(),
  };
  const isNumber = (text: string): boolean => /^\d{1,10}$/.test(text.trim());
  const isReady =
    name.trim() !== "" &&
    numbers.length > 0 &&
    numbers.every(isNumber) &&
    [values.maxAttempts, values.maxConsumers, values.retentionSeconds].every(isNumber);
  const call = callOf("PUT /admin/topics/:topicName", {
    params: { topicName: name.trim() },
    body,
  });
  return (
    <ActionDialog
      title={topic === undefined ? "Create a topic" : `Policy of ${topic.topicName}`}
      about="The policy applies to tasks that are created from now on."
      button={topic === undefined ? "Create topic" : "Save policy"}
      icon={<Icon name="check" />}
      call={call}
      isReady={isReady}
      run={() => sendCall(call, `The policy of ${name.trim()} applies from now on`, "topics")}
    >
      {topic === undefined ? (
        <TextField label="Queue" isCode value={name} onChange={setName} />
      ) : null}
      {fields.map(([field, label]) => (
        <TextField
          key={field}
          label={label}
          value={values[field]}
          onChange={(value) => setValues({ ...values, [field]: value })}
        />
      ))}
    </ActionDialog>
  );
}
