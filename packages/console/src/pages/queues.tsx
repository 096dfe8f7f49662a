/** All queues: how deep, what is wrong, what can be done. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count, plural } from "../format.ts";
import { useKeys, useRowKeys } from "../keys.ts";
import { type QueueRow, useQueues } from "../model/queues.ts";
import { Hints, Nothing, PageHead, Pending, QueueLink, queueHref } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { DepthBar } from "../parts/charts.tsx";
import { Choices } from "../parts/fields.tsx";
import { Icon } from "../parts/icon.tsx";
import { actions, type Column, LongTable, num, title } from "../parts/tables.tsx";
import { href, navigate } from "../router.ts";
import { mayAct } from "../session.ts";
import {
  askPauseQueue,
  depthOf,
  drainText,
  PausedBy,
  paceColumns,
  resumeQueue,
  trendColumn,
} from "./queue.tsx";

type Kind = "all" | "dead" | "paused";

const rowPx = 41;

export function Queues(): JSX.Element {
  const { data, error } = useQueues();
  const [kind, setKind] = useState<Kind>("all");
  const [text, setText] = useState("");
  const all = data ?? [];
  const of: Readonly<Record<Kind, readonly QueueRow[]>> = {
    all,
    dead: all.filter(({ dead }) => dead > 0),
    paused: all.filter(({ pause }) => pause !== undefined),
  };
  const wanted = text.trim().toLowerCase();
  const shown = [...of[kind]]
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .sort(byAttention);
  const ids = shown.map(({ name }) => name);
  const { cursor, keys } = useRowKeys(ids, { open: (name) => navigate(queueHref(name)) });
  useKeys({ ...keys, "/": () => document.getElementById("queue-filter")?.focus() });
  if (data === undefined) return <Pending error={error} />;
  const sum = (key: "waiting" | "leased" | "dead"): string =>
    count(all.reduce((total, queue) => total + queue[key], 0));
  return (
    <>
      <PageHead
        title="Queues"
        about={`${sum("waiting")} waiting, ${sum("leased")} leased, ${sum("dead")} dead letters in ${plural(all.length, "queue")}`}
      >
        {mayAct() ? (
          <a class="btn" href={href("/enqueue")}>
            <Icon name="plus" />
            Enqueue
          </a>
        ) : null}
      </PageHead>
      <div class="row wrap">
        <Choices
          label="Which queues"
          large
          options={[
            ["all", `All ${count(of.all.length)}`],
            ["dead", `With dead letters ${count(of.dead.length)}`],
            ["paused", `Paused ${count(of.paused.length)}`],
          ]}
          value={kind}
          onChange={setKind}
        />
        <label class="grow filter-queues">
          <span class="sr">Filter by name</span>
          <input
            id="queue-filter"
            class="input"
            placeholder="Filter by name  /"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <Legend />
      </div>
      <section class="panel" aria-label="Queues">
        {shown.length === 0 ? (
          <Nothing
            title={all.length === 0 ? "No queue has tasks" : "No queue matches"}
            icon="queues"
          >
            <p>A queue exists as soon as it has a task.</p>
          </Nothing>
        ) : (
          <LongTable
            label="Queue list"
            rows={shown}
            id={({ name }) => name}
            rowPx={rowPx}
            cursor={cursor}
            columns={columnsOf(depthOf(...shown))}
          />
        )}
        <div class="panel-foot sub row wrap">
          <Hints of={["J K move", "Enter open", "/ filter"]} />
          <span class="grow" />
          <span>Bar length is logarithmic.</span>
        </div>
      </section>
    </>
  );
}

/** Dead letters, then paused ones, then the most waiting. */
function byAttention(one: QueueRow, other: QueueRow): number {
  const weight = ({ dead, pause }: QueueRow): number =>
    (dead > 0 ? 2 : 0) + (pause === undefined ? 0 : 1);
  return (
    weight(other) - weight(one) || other.waiting - one.waiting || (one.name < other.name ? -1 : 1)
  );
}

function Legend(): JSX.Element {
  return (
    <div class="legend row wrap wide-only">
      {(["ready", "delayed", "leased", "dead"] as const).map((place) => (
        <span key={place}>
          <svg width="8" height="8" aria-hidden="true">
            <rect class={`f-${place}`} width="8" height="8" rx="2" />
          </svg>
          {place[0]?.toUpperCase() + place.slice(1)}
        </span>
      ))}
    </div>
  );
}

function columnsOf(top: number): readonly Column<QueueRow>[] {
  return [
    { ...title("Queue", Name), class: ({ pause }) => `full name ${pause ? "two" : ""}` },
    num("Waiting", ({ waiting }) => <b>{count(waiting)}</b>),
    title("Depth by place", (row) => <DepthBar of={row} top={top} />, "full bar"),
    { ...num("Dead", Dead), class: ({ dead }) => `num ${dead > 0 ? "bad" : "faint"}` },
    ...paceColumns,
    num("Drains", Drain),
    trendColumn,
    {
      head: "Leased",
      headClass: "num lo2",
      class: (row) => `num lo2 gone ${isFull(row) ? "warn" : ""}`,
      show: ({ leased, leasedMax }) =>
        leasedMax === undefined ? count(leased) : `${count(leased)} of ${count(leasedMax)}`,
    },
    actions(PauseButton, ""),
  ];
}

function Name({ name, pause }: QueueRow): JSX.Element {
  return (
    <>
      <QueueLink name={name} />
      {pause === undefined ? null : (
        <span class="sub warn">
          <PausedBy pause={pause} />
        </span>
      )}
    </>
  );
}

function Dead({ name, dead }: QueueRow): JSX.Element {
  if (dead === 0) return <>0</>;
  return (
    <a class="bad" href={href("/failures", { queue: name })}>
      {count(dead)}
    </a>
  );
}

function PauseButton(row: QueueRow): JSX.Element {
  const { name, pause } = row;
  const isPaused = pause !== undefined;
  return (
    <div class="acts">
      <Act
        class="ghost icon sm"
        icon={isPaused ? "play" : "pause"}
        aria-label={`${isPaused ? "Resume" : "Pause"} ${name}`}
        onClick={() => (isPaused ? resumeQueue(name) : askPauseQueue(row))}
      />
    </div>
  );
}

function isFull({ leased, leasedMax }: QueueRow): boolean {
  return leasedMax !== undefined && leased >= leasedMax;
}

function Drain(row: QueueRow): JSX.Element {
  const text = drainText(row);
  const level = text === "paused" ? "st-warn" : text === "growing" ? "st-dead" : "";
  return (
    <span class={`st ${level}`}>
      {text === "growing" ? <Icon name="up" small /> : null}
      {text.replace("drains in ", "")}
    </span>
  );
}
