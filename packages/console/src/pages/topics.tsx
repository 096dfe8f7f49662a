/** Topics: queues with their own policy; create, change and delete a topic. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { duration, plural } from "../format.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Nothing, PageHead, Panel, QueueLink, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { CheckBox, TextField } from "../parts/fields.tsx";
import { actions, CardTable, type Column, column, num, title } from "../parts/tables.tsx";
import { useAnswer } from "../query.ts";
import { sendCall } from "../toasts.tsx";
import { rateOf, rateText } from "./queue-lanes.tsx";

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
    [(lanes?.weight ?? 1) > 1, `weight ${lanes?.weight} for each lane`],
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
  ["rate", "Units that all tasks may spend, such as 100/1m; empty for any rate"],
  ["laneConcurrency", "Leases of each lane at most; 0 for any number"],
  ["laneRate", "Units that each lane may spend, such as 100/1m; empty for any rate"],
  ["laneWeight", "Weight of a lane that has none of its own, 1 to 1000"],
  ["retentionSeconds", "Seconds that ended tasks are kept; 0 for the setting of the server"],
  ["deadLetterTopicRef", "Queue that gets a copy of every dead letter; empty for none"],
] as const;
type Field = (typeof fields)[number][0];

type Values = Readonly<Record<Field, string>>;

function valuesOf(policy: Topic["policy"]): Values {
  const { maxAttempts, priorityTiers, maxConsumers, rate, lanes, retentionSeconds } = policy;
  return {
    maxAttempts: String(maxAttempts),
    tiers: priorityTiers.join(", "),
    maxConsumers: String(maxConsumers ?? 0),
    rate: rate === undefined ? "" : rateText(rate),
    ...laneValuesOf(lanes),
    retentionSeconds: String(retentionSeconds ?? 0),
    deadLetterTopicRef: policy.deadLetterTopicRef ?? "",
  };
}

function laneValuesOf({ concurrency = 0, rate, weight = 1 }: Topic["policy"]["lanes"] & {} = {}) {
  return {
    laneConcurrency: String(concurrency),
    laneRate: rate === undefined ? "" : rateText(rate),
    laneWeight: String(weight),
  };
}

const initial: Topic["policy"] = { maxAttempts: 5, priorityTiers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] };

function policyOf(values: Values, isInOne: boolean): Topic["policy"] {
  const concurrency = Number(values.laneConcurrency);
  const [laneRate, weight] = [rateOf(values.laneRate), Number(values.laneWeight)];
  const hasLanes = concurrency > 0 || laneRate !== undefined || weight !== 1;
  return {
    priorityTiers: tiersIn(values).map(Number),
    maxAttempts: Number(values.maxAttempts),
    maxConsumers: Number(values.maxConsumers),
    rate: rateOf(values.rate),
    lanes: hasLanes ? { concurrency, rate: laneRate, weight } : undefined,
    placement: isInOne ? "one" : undefined,
    retentionSeconds: Number(values.retentionSeconds),
    deadLetterTopicRef: values.deadLetterTopicRef.trim(),
  };
}

function tiersIn({ tiers }: Values): readonly string[] {
  return tiers.split(/[\s,]+/).filter((each) => each !== "");
}

function isPolicy(values: Values): boolean {
  const { maxAttempts, maxConsumers, retentionSeconds, laneConcurrency, laneWeight } = values;
  const tiers = tiersIn(values);
  const numbers = [maxAttempts, maxConsumers, retentionSeconds, laneConcurrency, laneWeight];
  const isNumber = (text: string): boolean => /^\d{1,10}$/.test(text.trim());
  const isRate = (text: string): boolean => text === "" || rateOf(text) !== undefined;
  const areNumbers = [...numbers, ...tiers].every(isNumber);
  return tiers.length > 0 && areNumbers && isRate(values.rate) && isRate(values.laneRate);
}

function TopicDialog({ topic }: { readonly topic?: Topic }): JSX.Element {
  const [name, setName] = useState(topic?.topicName ?? "");
  const [isInOne, setIsInOne] = useState(topic?.policy.placement === "one");
  const [values, setValues] = useState(() => valuesOf(topic?.policy ?? initial));
  const isReady = name.trim() !== "" && isPolicy(values);
  const body = policyOf(values, isInOne);
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
      <CheckBox class="opt" isOn={isInOne} onChange={setIsInOne}>
        All tasks in one shard: the limits of the queue are exact in a cluster, with the speed of
        one shard
      </CheckBox>
    </ActionDialog>
  );
}
