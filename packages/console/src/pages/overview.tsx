/** The state of the server: problems first, then figures and the deepest queues. */
import type { JSX } from "preact";
import { type Attention, attentionOf, isNearlyFull, type Known } from "../attention.ts";
import { bytes, count, duration, plural, rate, share } from "../format.ts";
import { useFailures } from "../model/failures.ts";
import { failureShare, isUnserved, type QueueRow, useQueues } from "../model/queues.ts";
import { useUsual } from "../model/series.ts";
import { useCluster, useHealth, useWorkers } from "../model/server.ts";
import { Given, Nothing, Panel, Pending, QueueLink, queueHref } from "../parts/basics.tsx";
import { DepthBar } from "../parts/charts.tsx";
import { Icon } from "../parts/icon.tsx";
import { CardTable, type Column, num, title } from "../parts/tables.tsx";
import { useNow } from "../preferences.ts";
import { href } from "../router.ts";
import { type Session, session } from "../session.ts";
import { useStore } from "../store.ts";
import { FirstTask } from "./first-task.tsx";
import {
  depthOf,
  drainText,
  failingShare,
  paceColumns,
  RatePanel,
  Stat,
  trendColumn,
} from "./queue.tsx";

const shownMax = 6;

export function Overview(): JSX.Element {
  const queues = useQueues();
  const workers = useWorkers();
  const health = useHealth();
  const cluster = useCluster();
  const failures = useFailures({ queue: "" });
  const nowMs = useNow();
  const who = useStore(session) as Session;
  if (queues.data === undefined) return <Pending error={queues.error} />;
  if (queues.data.length === 0 && who.env === "dev") return <FirstTask />;
  const known = {
    queues: queues.data,
    workers: workers.data?.workers ?? [],
    failures: failures.data,
    health: health.data,
    disk: cluster.data?.disk,
    nowMs,
  };
  const attention = attentionOf(known);
  return (
    <>
      <HealthLine attention={attention} queues={queues.data} />
      <Stats {...known} durability={who.durability} />
      <div class="cols c-7-5">
        <RatePanel queue="" />
        <NeedsAttention items={attention} />
      </div>
      <MostWaiting queues={queues.data} />
    </>
  );
}

function HealthLine(props: {
  readonly attention: readonly Attention[];
  readonly queues: readonly QueueRow[];
}): JSX.Element {
  const urgent = props.attention.filter(({ level }) => level === "bad").length;
  const touched = new Set(props.attention.flatMap(({ queues }) => queues)).size;
  const healthy = props.queues.length - touched;
  const title =
    urgent === 0
      ? "Everything is healthy"
      : `${plural(urgent, "problem needs", "problems need")} your attention`;
  return (
    <div class="page-head">
      <div class={`health row ${urgent === 0 ? "ok" : ""}`}>
        <span class="lamp">
          <Icon name={urgent === 0 ? "check" : "warn"} />
        </span>
        <div>
          <h1>{title}</h1>
          <p>
            {count(healthy)} of {plural(props.queues.length, "queue is", "queues are")} healthy.
          </p>
        </div>
      </div>
    </div>
  );
}

function Stats(props: Known & { readonly durability: string }): JSX.Element {
  const { queues, workers, health, disk } = props;
  const sum = (key: "ready" | "delayed" | "leased" | "dead" | "failed" | "waiting"): number =>
    queues.reduce((total, queue) => total + queue[key], 0);
  const [most] = [...queues].sort((one, other) => other.waiting - one.waiting);
  const waiting = sum("waiting");
  const failures = sum("dead") + sum("failed");
  const flow = (key: "enqueued" | "completed" | "failed" | "retried"): number =>
    queues.reduce((total, queue) => total + queue.rates[key], 0);
  const rates = {
    enqueued: flow("enqueued"),
    completed: flow("completed"),
    failed: flow("failed"),
    retried: flow("retried"),
  };
  const failing = failureShare(rates);
  const ages = queues
    .filter(({ pause }) => pause === undefined)
    .map((each) => each.oldestSeconds ?? 0);
  const oldest = Math.max(0, ...ages);
  const usual = useUsual();
  return (
    <section class="stats" aria-label="Health">
      <Stat
        label="Tasks per second"
        to={href("/queues")}
        note={
          usual === undefined
            ? "over the last minute"
            : `usually ${rate(usual.enqueuedPerSecond)} in at this hour`
        }
      >
        {rate(rates.enqueued)}
        <small>in</small>
        <span class="then">{rate(rates.completed)}</span>
        <small>out</small>
      </Stat>
      <Stat
        label="Waiting"
        to={href("/queues")}
        note={most === undefined || waiting === 0 ? "nothing waits" : `most in ${most.name}`}
      >
        {count(waiting)}
      </Stat>
      <Stat label="Oldest waiting" to={href("/queues")} note="paused left out">
        {oldest === 0 ? "–" : duration(oldest * 1000)}
      </Stat>
      <Stat
        label="Failure rate"
        to={href("/failures")}
        level={failing >= failingShare ? "bad" : undefined}
        note={usual === undefined ? "of attempts" : `usually ${share(usual.failing)}`}
      >
        {share(failing)}
      </Stat>
      <Stat
        label="Workers"
        to={href("/workers")}
        level={queues.some(isUnserved) ? "bad" : undefined}
        note={plural(sum("leased"), "lease")}
      >
        {count(workers.length)}
      </Stat>
      <Stat
        label="Failures"
        to={href("/failures")}
        level={failures > 0 ? "bad" : undefined}
        note={failures > 0 ? `${count(sum("dead"))} dead, ${count(sum("failed"))} failed` : "none"}
      >
        {count(failures)}
      </Stat>
      <DiskStat health={health} disk={disk} />
      <Stat
        label="Durability"
        to={href("/settings")}
        note={durabilityNotes[props.durability] ?? ""}
      >
        {props.durability}
      </Stat>
    </section>
  );
}

function DiskStat({ health, disk }: Pick<Known, "health" | "disk">): JSX.Element {
  const isOpen = health === undefined || health.storage === "open";
  return (
    <Stat
      label="Disk"
      to={href("/cluster")}
      level={!isOpen ? "bad" : disk !== undefined && isNearlyFull(disk) ? "warn" : undefined}
      note={isOpen ? "accepts writes" : `${health.storage}: refuses writes`}
    >
      {disk === undefined ? (health?.storage ?? "…") : bytes(disk.freeBytes)}
      {disk === undefined ? null : <small>free</small>}
    </Stat>
  );
}

const durabilityNotes: Readonly<Record<string, string>> = {
  fsync: "every write synced",
  interval: "synced every few ms",
  os: "not synced",
  memory: "lost when the server ends",
};

function NeedsAttention({ items }: { readonly items: readonly Attention[] }): JSX.Element {
  const urgent = items.filter(({ level }) => level === "bad").length;
  const note =
    items.length === 0 ? undefined : `${urgent} urgent, ${items.length - urgent} to know`;
  return (
    <Panel title="Needs attention" id="attnp" note={note}>
      {items.length === 0 ? (
        <Nothing icon="check" title="Nothing to do">
          <p>Problems appear here, with the place where you can act on them.</p>
        </Nothing>
      ) : (
        <ul class="attn">
          {items.map((item) => (
            <li key={item.id}>
              <span class={item.level}>
                <Icon name={item.icon} />
              </span>
              <span class="t">
                <Given text={item.title} max={200} />
              </span>
              <span class="d">
                <Given text={item.why} max={300} />
              </span>
              <a class="btn sm a" href={pageOf(item)}>
                {linkTexts[item.page]}
              </a>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

const linkTexts = {
  queue: "Open queue",
  queues: "Open queues",
  failures: "Open failures",
  workers: "Open workers",
  health: "Open cluster",
} as const;

function pageOf({ page, id, queues }: Attention): string {
  const [only] = queues.length === 1 ? queues : [];
  if (page === "failures") return href("/failures", { queue: only });
  if (page === "queue") return queueHref(only ?? "");
  if (page === "queues") return href("/queues", { show: shownQueues[id] });
  return page === "workers" ? href("/workers") : href("/cluster");
}

const shownQueues: Readonly<Record<string, string>> = { paused: "paused", "no worker": "unserved" };

function MostWaiting({ queues }: { readonly queues: readonly QueueRow[] }): JSX.Element {
  const top = depthOf(...queues);
  const rows = [...queues].sort((one, other) => other.waiting - one.waiting).slice(0, shownMax);
  const columns: readonly Column<QueueRow>[] = [
    title("Queue", ({ name }) => <QueueLink name={name} />),
    num("Waiting", ({ waiting }) => count(waiting)),
    title("Places", (row) => <DepthBar of={row} top={top} />, "full last"),
    ...paceColumns,
    num("Drains", drainText),
    trendColumn,
  ];
  return (
    <Panel
      title="Most waiting"
      id="most"
      actions={
        <a class="btn ghost sm" href={href("/queues")}>
          All {plural(queues.length, "queue")}
        </a>
      }
    >
      <CardTable rows={rows} id={({ name }) => name} columns={columns} />
    </Panel>
  );
}
