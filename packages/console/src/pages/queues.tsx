/** All queues with their depths, rates and problems. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count, plural } from "../format.ts";
import { useKeys, useRowKeys } from "../keys.ts";
import { isUnserved, type QueueRow, useQueues } from "../model/queues.ts";
import { openDialog } from "../overlays/dialog.tsx";
import { Hints, Nothing, PageHead, Pending, QueueLink, queueHref } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { DepthBar } from "../parts/charts.tsx";
import { Choices } from "../parts/fields.tsx";
import { Icon } from "../parts/icon.tsx";
import { actions, type Column, LongTable, num, title } from "../parts/tables.tsx";
import { href, navigate, useLocation } from "../router.ts";
import { mayAct } from "../session.ts";
import {
  depthOf,
  drainText,
  PauseDialog,
  PausedBy,
  paceColumns,
  resumeQueue,
  trendColumn,
} from "./queue.tsx";

const kinds = ["all", "failures", "unserved", "paused"] as const;
type Kind = (typeof kinds)[number];

const rowPx = 41;

export function Queues(): JSX.Element {
  const { data, error } = useQueues();
  const asked = useLocation().query.get("show");
  const kind = kinds.find((each) => each === asked) ?? "all";
  const setKind = (next: Kind): void =>
    navigate(href("/queues", { show: next === "all" ? "" : next }), { replace: true });
  const [text, setText] = useState("");
  const all = data ?? [];
  const of: Readonly<Record<Kind, readonly QueueRow[]>> = {
    all,
    failures: all.filter(({ dead, failed }) => dead + failed > 0),
    unserved: all.filter(isUnserved),
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
  const sum = (key: "waiting" | "leased" | "dead" | "failed"): string =>
    count(all.reduce((total, queue) => total + queue[key], 0));
  return (
    <>
      <PageHead
        title="Queues"
        about={`${sum("waiting")} waiting, ${sum("leased")} leased, ${sum("dead")} dead letters, ${sum("failed")} failed in ${plural(all.length, "queue")}`}
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
          options={{
            all: `All ${count(of.all.length)}`,
            failures: `With failures ${count(of.failures.length)}`,
            unserved: `No worker ${count(of.unserved.length)}`,
            paused: `Paused ${count(of.paused.length)}`,
          }}
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

/** Most failures, then those without a worker, then paused ones, then the most waiting. */
function byAttention(one: QueueRow, other: QueueRow): number {
  const weight = (queue: QueueRow): number =>
    (queue.dead + queue.failed > 0 ? 4 : 0) +
    (isUnserved(queue) ? 2 : 0) +
    (queue.pause === undefined ? 0 : 1);
  const failures = ({ dead, failed }: QueueRow): number => dead + failed;
  return (
    weight(other) - weight(one) ||
    failures(other) - failures(one) ||
    other.waiting - one.waiting ||
    (one.name < other.name ? -1 : 1)
  );
}

function Legend(): JSX.Element {
  return (
    <div class="legend row wrap wide-only">
      {(["ready", "delayed", "leased", "dead"] as const).map((place) => (
        <span key={place}>
          <svg width="8" height="8" aria-hidden="true">
            <rect class={`f t-${place}`} width="8" height="8" rx="2" />
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
    {
      ...num("Failures", Failures),
      class: ({ dead, failed }) => `num ${dead + failed > 0 ? "bad" : "faint"}`,
    },
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

function Failures({ name, dead, failed }: QueueRow): JSX.Element {
  if (dead + failed === 0) return <>0</>;
  return (
    <a class="bad" href={href("/failures", { queue: name })}>
      {count(dead + failed)}
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
        onClick={() => (isPaused ? resumeQueue(name) : openDialog(<PauseDialog queue={row} />))}
      />
    </div>
  );
}

function isFull({ leased, leasedMax }: QueueRow): boolean {
  return leasedMax !== undefined && leased >= leasedMax;
}

function Drain(row: QueueRow): JSX.Element {
  const text = drainText(row);
  const level =
    text === "paused" ? "t-warn" : text === "growing" || text === "no worker" ? "t-dead" : "";
  return (
    <span class={`st ${level}`}>
      {text === "growing" ? <Icon name="up" small /> : null}
      {text.replace("drains in ", "")}
    </span>
  );
}
