/** One queue: depths, rates over time, failures, workers, its topic, and actions. */
import type { ItemOf } from "@codeq/protocol";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { count, duration, plural, rate, share } from "../format.ts";
import { useFailures } from "../model/failures.ts";
import { failureShare, isUnserved, type QueueRow, useQueues } from "../model/queues.ts";
import { type Range, type SeriesPoint, useSeries } from "../model/series.ts";
import { listCall } from "../model/tasks.ts";
import { ActionDialog, Effects, openDialog } from "../overlays/dialog.tsx";
import {
  type Fact,
  Facts,
  Given,
  Line,
  List,
  Note,
  Nothing,
  PageHead,
  Panel,
  Pending,
  Reason,
  Time,
  WorkerName,
} from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { DepthBar, QueueTrend, RateChart, TimeChart } from "../parts/charts.tsx";
import { Choices, TextField } from "../parts/fields.tsx";
import { Icon } from "../parts/icon.tsx";
import { type Column, num } from "../parts/tables.tsx";
import { useAnswer } from "../query.ts";
import { href } from "../router.ts";
import { mayAct } from "../session.ts";
import { showFilter } from "../task-filter.ts";
import { sendCall, sendNow } from "../toasts.tsx";
import { askBulkJob } from "./bulk-jobs.tsx";
import { QueueLanes } from "./queue-lanes.tsx";
import { askFailures } from "./tasks/task-actions.tsx";
import { limitsOf } from "./topics.tsx";

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
      <PageHead title={<bdi>{queue.name}</bdi>}>
        <Actions queue={queue} />
      </PageHead>
      <StateNote queue={queue} />
      <Figures queue={queue} />
      <RatePanel queue={queue.name} />
      <QueueLanes queue={queue.name} />
      <div class="cols c-6-6">
        <QueueFailures queue={queue.name} />
        <div class="cols">
          <QueueWorkers queue={queue} />
          <QueueTopic queue={queue.name} />
        </div>
      </div>
    </>
  );
}

/** Why no task of the queue is handed out, if none is. */
function StateNote({ queue }: { readonly queue: QueueRow }): JSX.Element | null {
  const { name, pause, ready, leased, leasedMax } = queue;
  if (pause !== undefined) {
    return (
      <Note icon="pause" tone="warn">
        <PausedBy pause={pause} />. Workers get no tasks from this queue.{" "}
        <Act class="sm" icon="play" onClick={() => resumeQueue(name)}>
          Resume
        </Act>
      </Note>
    );
  }
  if (isUnserved(queue)) {
    return (
      <Note icon="nowork" tone="warn">
        <b>No worker asks for this queue.</b> {plural(ready, "task is", "tasks are")} ready, the
        oldest for {oldestText(queue)}.
      </Note>
    );
  }
  if (leasedMax !== undefined && leased >= leasedMax && ready > 0) {
    return (
      <Note icon="block" tone="warn">
        The topic of this queue allows {plural(leasedMax, "lease")} at a time, and all are in use.
      </Note>
    );
  }
  return null;
}

const groupsShown = 5;

function QueueFailures({ queue }: { readonly queue: string }): JSX.Element {
  const { data, error } = useFailures({ queue });
  const all = (
    <a class="btn ghost sm" href={href("/failures", { queue })}>
      Open failures
    </a>
  );
  const note = data === undefined ? undefined : plural(data.length, "group");
  return (
    <Panel title="Failures" id="failures" note={note} actions={all}>
      <List
        rows={data?.slice(0, groupsShown)}
        error={error}
        nothing={<p class="panel-body muted">No failures.</p>}
      >
        {({ id, text, count: many, lastSeen }) => (
          <Line
            key={id}
            icon="dead"
            tone="bad"
            action={
              <a class="btn sm" href={href("/failures", { queue, group: id })}>
                Open
              </a>
            }
            sub={
              <>
                last <Time at={lastSeen} />
              </>
            }
          >
            <b>{count(many)}</b> × <Given text={text} max={200} />
          </Line>
        )}
      </List>
    </Panel>
  );
}

const leasesLooked = 200;

/** From the leases of the queue: the newest of them, when there are many. */
function QueueWorkers({ queue }: { readonly queue: QueueRow }): JSX.Element {
  const { name, leased, asking } = queue;
  const request = listCall({ command: name, place: "leased" }, { limit: leasesLooked });
  const { data, error } = useAnswer("queue-workers", request, { follows: { queue: name } });
  const held = new Map<string, number>();
  for (const { workerId = "" } of data?.tasks ?? []) {
    held.set(workerId, (held.get(workerId) ?? 0) + 1);
  }
  const rows = [...held].sort(([, one], [, other]) => other - one);
  const cut = leased > leasesLooked ? `, from the newest ${count(leasesLooked)} leases` : "";
  return (
    <Panel
      title="Workers"
      id="queue-workers"
      note={`${count(rows.length)} at work${cut}, ${count(asking)} asking for tasks`}
    >
      <List
        rows={data === undefined ? undefined : rows.slice(0, workersShown)}
        error={error}
        nothing={<p class="panel-body muted">No worker has a task of this queue.</p>}
      >
        {([id, leases]) => (
          <Line key={id} icon="workers" isCut>
            <WorkerName id={id} /> <span class="faint">{plural(leases, "lease")}</span>
          </Line>
        )}
      </List>
    </Panel>
  );
}

const workersShown = 10;

function topicFacts({ policy }: ItemOf<"GET /admin/topics">): Fact[] {
  const { retentionSeconds = 0, deadLetterTopicRef } = policy;
  return [
    ["Attempts", policy.maxAttempts],
    ["Priorities", policy.priorityTiers.join(", ")],
    ["Limits", limitsOf(policy).join(", ") || "none"],
    ["Kept", retentionSeconds === 0 ? "default of the server" : duration(retentionSeconds * 1000)],
    ["Dead letters also to", deadLetterTopicRef ?? "–"],
  ];
}

function QueueTopic({ queue }: { readonly queue: string }): JSX.Element | null {
  const { data } = useAnswer("topics", callOf("GET /admin/topics", { query: { limit: 1000 } }));
  const topic = data?.topics.find(({ topicName }) => topicName === queue);
  if (topic === undefined) return null;
  const all = (
    <a class="btn ghost sm" href={href("/topics")}>
      Open topics
    </a>
  );
  return (
    <Panel title="Topic" id="queue-topic" note={`version ${topic.version}`} actions={all}>
      <div class="panel-body">
        <Facts of={topicFacts(topic)} />
      </div>
    </Panel>
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
  const failures = {
    ids: [],
    filter: { place: "failure", command: name },
    shown: `state:failure queue:${name}`,
  } as const;
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
        <Act icon="pause" onClick={() => openDialog(<PauseDialog queue={queue} />)}>
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
      {queue.dead + queue.failed === 0 ? null : (
        <Act class="danger" icon="trash" onClick={() => askFailures("delete", failures)}>
          Delete failures…
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
  ] as const;
  const failures = queue.dead + queue.failed;
  const failing = failureShare(queue.rates);
  return (
    <>
      <section class="stats" aria-label="Depths and rates">
        {places.map(([title, place]) => (
          <Stat key={place} label={title} to={tasksOf(queue.name, place)} note="open tasks">
            {count(queue[place])}
          </Stat>
        ))}
        <Stat
          label="Failures"
          to={tasksOf(queue.name, "failure")}
          level={failures > 0 ? "bad" : undefined}
          note={`${count(queue.dead)} dead, ${count(queue.failed)} failed`}
        >
          {count(failures)}
        </Stat>
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

/** From this share of failed attempts on, the figure is marked as a problem. */
export const failingShare = 0.1;

interface StatProps {
  readonly label: ComponentChildren;
  readonly to?: string;
  readonly level?: "bad" | "warn" | undefined;
  readonly note: ComponentChildren;
  readonly children: ComponentChildren;
}

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

/** The depth of the deepest queue, which has the longest bar. */
export function depthOf(...queues: readonly QueueRow[]): number {
  return Math.max(1, ...queues.map(({ waiting, leased, dead }) => waiting + leased + dead));
}

function oldestText({ oldestSeconds }: QueueRow): string {
  return oldestSeconds === undefined ? "–" : duration(oldestSeconds * 1000);
}

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

export function drainText(queue: QueueRow): string {
  const { waiting, drainSeconds, rates, pause } = queue;
  if (pause !== undefined) return "paused";
  if (isUnserved(queue)) return "no worker";
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
      options={{ "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d" }}
      value={range}
      onChange={setRange}
    />
  );
  return (
    <Panel
      title={queue === "" ? "Tasks per second" : "Tasks per second and times"}
      id="rates"
      actions={choices}
    >
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <div class="panel-body">
          <RateChart points={data} />
          {queue === "" ? null : <QueueTimes points={data} />}
        </div>
      )}
    </Panel>
  );
}

function QueueTimes({ points }: { readonly points: readonly SeriesPoint[] }): JSX.Element {
  return (
    <div class="cols c-6-6">
      <section aria-label="Waiting time">
        <h3>Waiting until a worker claims the task</h3>
        <TimeChart of="wait" points={points} />
      </section>
      <section aria-label="Running time">
        <h3>Running, an attempt</h3>
        <TimeChart of="run" points={points} />
      </section>
    </div>
  );
}

export function resumeQueue(name: string): void {
  const call = callOf("POST /admin/queues/:command/resume", { params: { command: name } });
  sendNow(call, `Resumed ${name}`, "queues");
}

export function PauseDialog({ queue }: { readonly queue: QueueRow }): JSX.Element {
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
