/** One queue: its rates over time, its depths, what can be done. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { count, duration, plural, rate, share } from "../format.ts";
import { failureShare, type QueueRow, useQueues } from "../model/queues.ts";
import { type Range, useSeries } from "../model/series.ts";
import { ActionDialog, Effects, openDialog } from "../overlays/dialog.tsx";
import { Nothing, PageHead, Panel, Pending, Reason, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { DepthBar, QueueTrend, RateChart, RateLegend } from "../parts/charts.tsx";
import { Choices, TextField } from "../parts/fields.tsx";
import { Icon } from "../parts/icon.tsx";
import { type Column, num } from "../parts/tables.tsx";
import { href } from "../router.ts";
import { mayAct } from "../session.ts";
import { showFilter } from "../task-filter.ts";
import { sendCall, sendNow } from "../toasts.tsx";
import { askBulkJob } from "./bulk-jobs.tsx";
import { askDeadLetters } from "./task-actions.tsx";

export function QueueDetails({ name }: { readonly name: string }): JSX.Element {
  const { data, error } = useQueues();
  if (data === undefined) return <Pending error={error} />;
  const queue = data.find((each) => each.name === name.toLowerCase() || each.name === name);
  if (queue === undefined) {
    return (
      <Nothing title="This queue has no tasks" icon="queues" isPage>
        <p>{mayAct() ? <a href={href("/enqueue", { queue: name })}>Enqueue one</a> : null}</p>
      </Nothing>
    );
  }
  const about =
    queue.pause === undefined ? undefined : (
      <span class="warn">
        <PausedBy pause={queue.pause} />
      </span>
    );
  return (
    <>
      <PageHead title={<bdi>{queue.name}</bdi>} about={about}>
        <Actions queue={queue} />
      </PageHead>
      <Figures queue={queue} />
      <RatePanel queue={queue.name} />
    </>
  );
}

export function PausedBy({ pause }: { pause: NonNullable<QueueRow["pause"]> }): JSX.Element {
  return (
    <>
      Paused by <bdi>{pause.by}</bdi> <Time at={pause.at} />
      <Reason text={pause.reason} max={300} />
    </>
  );
}

function tasksOf(queue: string, place?: string): string {
  const tokens = [{ key: "queue", value: queue }];
  if (place !== undefined) tokens.push({ key: "state", value: place });
  return href("/tasks", { q: showFilter(tokens) });
}

function Actions({ queue }: { readonly queue: QueueRow }): JSX.Element {
  const { name } = queue;
  const all = { ids: [], filter: { command: name }, shown: `queue:${name}` };
  return (
    <>
      <a class="btn primary" href={tasksOf(name)}>
        <Icon name="tasks" />
        Open tasks
      </a>
      {mayAct() ? (
        <a class="btn" href={href("/enqueue", { queue: name })}>
          <Icon name="plus" />
          Enqueue
        </a>
      ) : null}
      {queue.pause === undefined ? (
        <Act icon="pause" onClick={() => askPauseQueue(queue)}>
          Pause…
        </Act>
      ) : (
        <Act icon="play" onClick={() => resumeQueue(name)}>
          Resume
        </Act>
      )}
      {queue.waiting + queue.leased === 0 ? null : (
        <Act class="danger" icon="x" onClick={() => askBulkJob("cancel", all)}>
          Cancel all tasks…
        </Act>
      )}
      {queue.dead === 0 ? null : (
        <Act class="danger" icon="trash" onClick={() => askDeadLetters("delete", all)}>
          Delete dead letters…
        </Act>
      )}
    </>
  );
}

function Figures({ queue }: { readonly queue: QueueRow }): JSX.Element {
  const places = [
    ["Ready", "ready"],
    ["Delayed", "delayed"],
    ["Leased", "leased"],
    ["Dead letters", "dead"],
  ] as const;
  const failing = failureShare(queue.rates);
  return (
    <>
      <section class="stats" aria-label="Depths and rates">
        {places.map(([title, place]) => (
          <Stat
            key={place}
            label={title}
            to={tasksOf(queue.name, place)}
            level={place === "dead" && queue.dead > 0 ? "bad" : undefined}
            note="open tasks"
          >
            {count(queue[place])}
          </Stat>
        ))}
        <Stat label="Oldest waiting" note="ready and not claimed">
          {oldestText(queue)}
        </Stat>
        <Stat label="In per second" note="last minute">
          {rate(queue.rates.enqueued)}
        </Stat>
        <Stat label="Out per second" note={drainText(queue)}>
          {rate(queue.rates.completed)}
        </Stat>
        <Stat
          label="Failed attempts"
          note="last minute"
          level={failing >= failingShare ? "bad" : undefined}
        >
          {share(failing)}
        </Stat>
      </section>
      <DepthBar of={queue} top={depthOf(queue)} />
    </>
  );
}

/** From this share of failed attempts on somebody should look. */
export const failingShare = 0.1;

interface StatProps {
  readonly label: ComponentChildren;
  /** The page with more about it. */
  readonly to?: string;
  readonly level?: "bad" | "warn" | undefined;
  readonly note: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A figure, what it is, and a note on it. */
export function Stat({ label, to, level, note, children }: StatProps): JSX.Element {
  const look = `stat ${level === undefined ? "" : `is-${level}`}`;
  const content = (
    <>
      <span class="l row">
        {level === undefined ? null : <Icon name="warn" small />}
        {label}
      </span>
      <span class="v">{children}</span>
      <span class="sub trunc">{note}</span>
    </>
  );
  if (to === undefined) return <div class={look}>{content}</div>;
  return (
    <a class={look} href={to}>
      {content}
    </a>
  );
}

/** How long the bar of the deepest queue is. */
export function depthOf(...queues: readonly QueueRow[]): number {
  return Math.max(1, ...queues.map(({ waiting, leased, dead }) => waiting + leased + dead));
}

function oldestText({ oldestSeconds }: QueueRow): string {
  return oldestSeconds === undefined ? "–" : duration(oldestSeconds * 1000);
}

/** How old the oldest task is, and how fast tasks come and go. */
export const paceColumns: readonly Column<QueueRow>[] = [
  num("Oldest", oldestText),
  num("In/s", ({ rates }) => rate(rates.enqueued)),
  num("Out/s", ({ rates }) => rate(rates.completed)),
];

export const trendColumn: Column<QueueRow> = {
  head: "Completed, 30 m",
  headClass: "lo2",
  class: "lo2 gone",
  show: ({ name }) => <QueueTrend queue={name} />,
};

export function drainText({ waiting, drainSeconds, rates, pause }: QueueRow): string {
  if (pause !== undefined) return "paused";
  if (waiting === 0) return "empty";
  if (drainSeconds !== undefined) return `drains in ${duration(drainSeconds * 1000)}`;
  return rates.enqueued > rates.completed ? "growing" : "does not drain";
}

export function RatePanel({ queue }: { readonly queue: string }): JSX.Element {
  const [range, setRange] = useState<Range>("1h");
  const { data, error } = useSeries(range, queue);
  const choices = (
    <Choices
      label="Time range"
      options={[
        ["1h", "1 h"],
        ["6h", "6 h"],
        ["24h", "24 h"],
        ["7d", "7 d"],
      ]}
      value={range}
      onChange={setRange}
    />
  );
  return (
    <Panel title="Tasks per second" id="rates" actions={choices}>
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <div class="panel-body">
          <RateLegend last={data.at(-1)} />
          <RateChart points={data} />
        </div>
      )}
    </Panel>
  );
}

export function resumeQueue(name: string): void {
  const call = callOf("POST /admin/queues/:command/resume", { params: { command: name } });
  sendNow(call, `Resumed ${name}`, "queues");
}

export function askPauseQueue(queue: QueueRow): void {
  openDialog(() => <PauseDialog queue={queue} />);
}

function PauseDialog({ queue }: { readonly queue: QueueRow }): JSX.Element {
  const [reason, setReason] = useState("");
  const params = { command: queue.name };
  const call = callOf("POST /admin/queues/:command/pause", { params, body: { reason } });
  const waiting = plural(queue.waiting, "waiting task stays", "waiting tasks stay");
  const leased = plural(queue.leased, "leased task finishes", "leased tasks finish");
  return (
    <ActionDialog
      title={`Pause ${queue.name}?`}
      about="Workers get no more tasks from this queue until someone resumes it."
      button="Pause queue"
      icon="pause"
      call={call}
      run={() => sendCall(call, `Paused ${queue.name}`, "queues")}
    >
      <Effects
        of={[
          ["ready", `${waiting} where they are. Producers can go on enqueueing.`],
          ["leased", `${leased} as usual.`],
        ]}
      />
      <TextField
        label="Reason, shown to everyone"
        maxLength={200}
        value={reason}
        onChange={setReason}
      />
    </ActionDialog>
  );
}
