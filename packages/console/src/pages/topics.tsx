/** Topics: queues with their own policy; create, change and delete a topic. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { duration, plural } from "../format.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Nothing, PageHead, Panel, QueueLink, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { TextField } from "../parts/fields.tsx";
import { actions, CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { useAnswer } from "../query.ts";
import { sendCall } from "../toasts.tsx";
import { rateText } from "./queue-lanes.tsx";

type Topic = ItemOf<"GET /admin/topics">;

export function Topics(): JSX.Element {
  const request = callOf("GET /admin/topics", { query: { limit: 1000 } });
  const { data, error } = useAnswer("topics", request, { everyMs: 10_000 });
  return (
    <>
      <PageHead
        title="Topics"
        about="A topic gives a queue its own attempts, priorities, retention and limit of leases."
      >
        <Act class="primary" icon="plus" onClick={() => openDialog(<TopicDialog />)}>
          Create topic
        </Act>
      </PageHead>
      <Panel title="Topics" id="topics" note={data && plural(data.topics.length, "topic")}>
        <CardTable
          rows={data?.topics}
          error={error}
          id={({ topicName }) => topicName}
          columns={columns}
          nothing={
            <Nothing icon="queues" title="No queue has a policy of its own">
              <p>Queues without a topic have the settings of the server.</p>
            </Nothing>
          }
        />
      </Panel>
    </>
  );
}

const columns: readonly Column<Topic>[] = [
  title("Queue", ({ topicName }) => <QueueLink name={topicName} />),
  num("Attempts", ({ policy }) => policy.maxAttempts),
  column("Priorities", ({ policy }) => policy.priorityTiers.join(", ")),
  column("Limits", ({ policy }) => limitsOf(policy).join(", ") || "–"),
  num("Kept", ({ policy: { retentionSeconds = 0 } }) =>
    retentionSeconds === 0 ? "default" : duration(retentionSeconds * 1000),
  ),
  column("Dead letters also to", ({ policy: { deadLetterTopicRef: to } }) =>
    to === undefined ? "–" : <QueueLink name={to} />,
  ),
  num("Changed", ({ updatedAt }) => <Time at={updatedAt} />, "faint"),
  actions((topic) => (
    <span class="row">
      <Act
        class="sm"
        aria-label={`Edit ${topic.topicName}`}
        onClick={() => openDialog(<TopicDialog topic={topic} />)}
      >
        Edit
      </Act>
      <Act
        class="sm danger"
        aria-label={`Delete ${topic.topicName}`}
        onClick={() => askDelete(topic)}
      >
        Delete…
      </Act>
    </span>
  )),
];

/** What the policy says of leases: of the queue, and of each of its lanes. */
export function limitsOf({ maxConsumers = 0, rate, lanes, placement }: Topic["policy"]): string[] {
  const limits = [
    [maxConsumers > 0, plural(maxConsumers, "lease")],
    [rate !== undefined, rateText(rate)],
    [(lanes?.concurrency ?? 0) > 0, `${plural(lanes?.concurrency ?? 0, "lease")} for each lane`],
    [lanes?.rate !== undefined, `${rateText(lanes?.rate)} for each lane`],
    [placement === "one", "in one shard"],
  ] as const;
  return limits.filter(([isSet]) => isSet).map(([, text]) => text);
}

function askDelete({ topicName }: Topic): void {
  const call = callOf("DELETE /admin/topics/:topicName", {
    params: { topicName },
    query: { deletionPolicy: "Delete" },
  });
  openDialog(
    <ActionDialog
      title={`Delete the topic of ${topicName}?`}
      about="The queue and its tasks stay, with the settings of the server."
      button="Delete topic"
      isFinal
      confirm={topicName}
      call={call}
      run={() => sendCall(call, `Deleted the topic of ${topicName}`, "topics")}
    />,
  );
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
    // Fields that the form does not have stay as they are.
    ...topic?.policy,
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
      icon="check"
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
