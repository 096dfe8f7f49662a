/** "Is it healthy?", answered first; then what to do, and what there is. */
import type { ComponentChildren, JSX } from "preact";
import { type Attention, attentionOf, isNearlyFull, type Known } from "../attention.ts";
import { bytes, count, duration, plural, rate, share } from "../format.ts";
import { failureShare, type QueueRow, useQueues } from "../model/queues.ts";
import { useUsual } from "../model/series.ts";
import { useCluster, useHealth, useWorkers } from "../model/server.ts";
import { DepthBar, Given, Nothing, Panel, Pending } from "../parts/basics.tsx";
import { CardTable, num } from "../parts/card-table.tsx";
import { Icon } from "../parts/icon.tsx";
import { PaceCells } from "../parts/pace-cells.tsx";
import { QueueTrend } from "../parts/queue-trend.tsx";
import { useNow } from "../preferences.ts";
import { href } from "../router.ts";
import { type Session, session } from "../session.ts";
import { useStore } from "../store.ts";
import { FirstTask } from "./first-task.tsx";
import { drainText, RatePanel } from "./queue.tsx";

const shownMax = 6;

export function Overview(): JSX.Element {
  const queues = useQueues();
  const workers = useWorkers();
  const health = useHealth();
  const cluster = useCluster();
  const nowMs = useNow();
  const who = useStore(session) as Session;
  if (queues.data === undefined) return <Pending error={queues.error} />;
  if (queues.data.length === 0 && who.env === "dev") return <FirstTask />;
  const known = {
    queues: queues.data,
    workers: workers.data?.workers ?? [],
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
  const touched = new Set(props.attention.map(({ queue }) => queue).filter(Boolean)).size;
  const healthy = props.queues.length - touched;
  const title =
    urgent === 0
      ? "Everything is healthy"
      : `${plural(urgent, "problem needs", "problems need")} your attention`;
  return (
    <div class="page-head">
      <div class={`health ${urgent === 0 ? "ok" : ""}`}>
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

interface StatProps {
  readonly label: string;
  readonly to: string;
  readonly level?: "bad" | "warn" | undefined;
  readonly note: ComponentChildren;
  readonly children: ComponentChildren;
}

function Stat({ label, to, level, note, children }: StatProps): JSX.Element {
  return (
    <a class={`stat ${level === undefined ? "" : `is-${level}`}`} href={to}>
      <span class="l">
        {level === undefined ? null : <Icon name="warn" small />}
        {label}
      </span>
      <span class="v">{children}</span>
      <span class="n trunc">{note}</span>
    </a>
  );
}

function Stats(props: Known & { readonly durability: string }): JSX.Element {
  const { queues, workers, health, disk } = props;
  const sum = (key: "ready" | "delayed" | "leased" | "dead" | "waiting"): number =>
    queues.reduce((total, queue) => total + queue[key], 0);
  const [most] = [...queues].sort((one, other) => other.waiting - one.waiting);
  const waiting = sum("waiting");
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
        level={workers.length === 0 && sum("ready") > 0 ? "bad" : undefined}
        note={plural(sum("leased"), "lease")}
      >
        {count(workers.length)}
      </Stat>
      <Stat
        label="Dead letters"
        to={href("/failures")}
        level={sum("dead") > 0 ? "bad" : undefined}
        note={sum("dead") > 0 ? "replay or delete" : "none"}
      >
        {count(sum("dead"))}
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

/** From this share of failed attempts on somebody should look. */
const failingShare = 0.1;

const durabilityNotes: Readonly<Record<string, string>> = {
  fsync: "every write synced",
  interval: "synced every few ms",
  os: "not synced",
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
          {items.slice(0, shownMax).map((item) => (
            <li key={item.title}>
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
      {items.length > shownMax ? (
        <div class="panel-foot">
          <a href={href("/queues")}>{count(items.length - shownMax)} more</a>
        </div>
      ) : null}
    </Panel>
  );
}

const linkTexts = {
  queue: "Open queue",
  dead: "Open failures",
  workers: "Open workers",
  health: "Open cluster",
} as const;

function pageOf({ page, queue = "" }: Attention): string {
  if (page === "dead") return href("/failures", { queue });
  if (page === "queue") return href(`/queues/${encodeURIComponent(queue)}`);
  return page === "workers" ? href("/workers") : href("/cluster");
}

function MostWaiting({ queues }: { readonly queues: readonly QueueRow[] }): JSX.Element {
  const top = Math.max(1, ...queues.map((each) => each.waiting + each.leased + each.dead));
  const rows = [...queues].sort((one, other) => other.waiting - one.waiting).slice(0, shownMax);
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
      <CardTable
        heads={[
          "Queue",
          num("Waiting"),
          "Places",
          num("Oldest"),
          num("In/s"),
          num("Out/s"),
          num("Drains"),
        ]}
      >
        {rows.map((row) => (
          <tr key={row.name} data-row="">
            <td class="full name">
              <a class="qname" href={href(`/queues/${encodeURIComponent(row.name)}`)}>
                <bdi>{row.name}</bdi>
              </a>
            </td>
            <td class="num" data-l="Waiting">
              {count(row.waiting)}
            </td>
            <td class="full last">
              <DepthBar of={row} top={top} />
            </td>
            <PaceCells row={row} />
            <td class="num" data-l="Drains">
              {drainText(row)}
            </td>
            <td class="lo2 gone">
              <QueueTrend queue={row.name} />
            </td>
          </tr>
        ))}
      </CardTable>
    </Panel>
  );
}
