/** One queue: its rates over time, its depths, what can be done. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count, duration, rate, share } from "../format.ts";
import { failureShare, type QueueRow, useQueues } from "../model/queues.ts";
import { type Range, useSeries } from "../model/series.ts";
import { Act } from "../parts/act.tsx";
import { Choices, DepthBar, Given, Nothing, Panel, Pending, Time } from "../parts/basics.tsx";
import { RateChart, RateLegend } from "../parts/charts.tsx";
import { Icon } from "../parts/icon.tsx";
import { href } from "../router.ts";
import { mayAct } from "../session.ts";
import { showFilter } from "../task-filter.ts";
import { askBulkJob } from "./bulk-job.tsx";
import { askDeleteDead, askPauseQueue, resumeQueue } from "./queue-actions.tsx";

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
  return (
    <>
      <div class="page-head">
        <div>
          <h1>
            <bdi>{queue.name}</bdi>
          </h1>
          <PauseLine queue={queue} />
        </div>
        <Actions queue={queue} />
      </div>
      <Figures queue={queue} />
      <RatePanel queue={queue.name} />
    </>
  );
}

function tasksOf(queue: string, place?: string): string {
  const tokens = [{ key: "queue", value: queue }];
  if (place !== undefined) tokens.push({ key: "state", value: place });
  return href("/tasks", { q: showFilter(tokens) });
}

function PauseLine({ queue: { pause } }: { readonly queue: QueueRow }): JSX.Element | null {
  if (pause === undefined) return null;
  return (
    <p class="warn">
      Paused by <bdi>{pause.by}</bdi> <Time at={pause.at} />
      {pause.reason === undefined ? null : (
        <>
          : <Given text={pause.reason} max={300} />
        </>
      )}
    </p>
  );
}

function Actions({ queue }: { readonly queue: QueueRow }): JSX.Element {
  return (
    <div class="acts">
      <a class="btn primary" href={tasksOf(queue.name)}>
        <Icon name="tasks" />
        Open tasks
      </a>
      {mayAct() ? (
        <a class="btn" href={href("/enqueue", { queue: queue.name })}>
          <Icon name="plus" />
          Enqueue
        </a>
      ) : null}
      {queue.pause === undefined ? (
        <Act class="btn" onClick={() => askPauseQueue(queue)}>
          <Icon name="pause" />
          Pause…
        </Act>
      ) : (
        <Act class="btn" onClick={() => resumeQueue(queue.name)}>
          <Icon name="play" />
          Resume
        </Act>
      )}
      {queue.waiting + queue.leased === 0 ? null : (
        <Act class="btn danger" onClick={() => askPurge(queue.name)}>
          <Icon name="x" />
          Cancel all tasks…
        </Act>
      )}
      {queue.dead === 0 ? null : (
        <Act class="btn danger" onClick={() => askDeleteDead(queue)}>
          <Icon name="trash" />
          Delete dead letters…
        </Act>
      )}
    </div>
  );
}

/** Everything that waits or runs; what has ended stays. */
function askPurge(name: string): void {
  askBulkJob({ action: "cancel", filter: { command: name }, shown: `queue:${name}` });
}

function Figures({ queue }: { readonly queue: QueueRow }): JSX.Element {
  const places = [
    ["Ready", "ready", queue.ready],
    ["Delayed", "delayed", queue.delayed],
    ["Leased", "leased", queue.leased],
    ["Dead letters", "dead", queue.dead],
  ] as const;
  const failing = failureShare(queue.rates);
  return (
    <>
      <section class="stats" aria-label="Depths and rates">
        {places.map(([title, place, value]) => (
          <a
            key={place}
            class={`stat ${place === "dead" && value > 0 ? "is-bad" : ""}`}
            href={tasksOf(queue.name, place)}
          >
            <span class="l">{title}</span>
            <span class="v">{count(value)}</span>
            <span class="n">open tasks</span>
          </a>
        ))}
        <Figure
          title="Oldest waiting"
          value={queue.oldestSeconds === undefined ? "–" : duration(queue.oldestSeconds * 1000)}
          note="ready and not claimed"
        />
        <Figure title="In per second" value={rate(queue.rates.enqueued)} note="last minute" />
        <Figure
          title="Out per second"
          value={rate(queue.rates.completed)}
          note={drainText(queue)}
        />
        <Figure
          title="Failed attempts"
          value={share(failing)}
          note="last minute"
          level={failing >= 0.1 ? "bad" : undefined}
        />
      </section>
      <DepthBar of={queue} top={Math.max(1, queue.waiting + queue.leased + queue.dead)} />
    </>
  );
}

function Figure(props: {
  title: string;
  value: string;
  note: string;
  level?: "bad" | undefined;
}): JSX.Element {
  return (
    <div class={`stat ${props.level === undefined ? "" : "is-bad"}`}>
      <span class="l">{props.title}</span>
      <span class="v">{props.value}</span>
      <span class="n trunc">{props.note}</span>
    </div>
  );
}

export function drainText({ waiting, drainSeconds, rates, pause }: QueueRow): string {
  if (pause !== undefined) return "paused";
  if (waiting === 0) return "empty";
  if (drainSeconds !== undefined) return `drains in ${duration(drainSeconds * 1000)}`;
  return rates.enqueued > rates.completed ? "growing" : "does not drain";
}

export function RatePanel({ queue }: { readonly queue: string }): JSX.Element {
  const [range, setRange] = useState<Range>("1h");
  const { data, error } = useSeries(range, queue);
  return (
    <Panel
      title="Tasks per second"
      id="rates"
      actions={
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
      }
    >
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
