/** All queues: how deep, what is wrong, what can be done. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count, plural } from "../format.ts";
import { rowKeys, useKeys } from "../keys.ts";
import { type QueueRow, useQueues } from "../model/queues.ts";
import { Act } from "../parts/act.tsx";
import { Choices, DepthBar, Given, Kbd, Nothing, Pending, Time } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { PaceCells } from "../parts/pace-cells.tsx";
import { PadRow } from "../parts/pad-row.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { QueueTrend } from "../parts/queue-trend.tsx";
import { useVirtualRows } from "../parts/virtual-rows.ts";
import { href } from "../router.ts";
import { mayAct } from "../session.ts";
import { drainText } from "./queue.tsx";
import { askPauseQueue, resumeQueue } from "./queue-actions.tsx";

type Kind = "all" | "dead" | "paused";

const rowPx = 41;

export function Queues(): JSX.Element {
  const { data, error } = useQueues();
  const [kind, setKind] = useState<Kind>("all");
  const [text, setText] = useState("");
  useKeys({
    ...rowKeys("#queue-list tbody tr[data-row]"),
    "/": () => document.getElementById("queue-filter")?.focus(),
  });
  if (data === undefined) return <Pending error={error} />;
  const of: Readonly<Record<Kind, readonly QueueRow[]>> = {
    all: data,
    dead: data.filter(({ dead }) => dead > 0),
    paused: data.filter(({ pause }) => pause !== undefined),
  };
  const wanted = text.trim().toLowerCase();
  const shown = [...of[kind]]
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .sort(byAttention);
  const sum = (key: "waiting" | "leased" | "dead"): string =>
    count(data.reduce((total, queue) => total + queue[key], 0));
  return (
    <>
      <PageHead
        title="Queues"
        about={
          <>
            {sum("waiting")} waiting, {sum("leased")} leased, {sum("dead")} dead letters in{" "}
            {plural(data.length, "queue")}
          </>
        }
      >
        {mayAct() ? (
          <a class="btn" href={href("/enqueue")}>
            <Icon name="plus" />
            Enqueue
          </a>
        ) : null}
      </PageHead>
      <div class="listbar">
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
            title={data.length === 0 ? "No queue has tasks" : "No queue matches"}
            icon="queues"
          >
            <p>A queue exists as soon as it has a task.</p>
          </Nothing>
        ) : (
          <QueueTable rows={shown} />
        )}
        <div class="panel-foot">
          <span class="hint hints">
            <Kbd>J</Kbd>
            <Kbd>K</Kbd>move
          </span>
          <span class="hint hints">
            <Kbd>Enter</Kbd>open
          </span>
          <span class="hint hints">
            <Kbd>/</Kbd>filter
          </span>
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
    <div class="legend wide-only">
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

function QueueTable({ rows }: { readonly rows: readonly QueueRow[] }): JSX.Element {
  const top = Math.max(1, ...rows.map((each) => each.waiting + each.leased + each.dead));
  const view = useVirtualRows(rows.length, rowPx);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
    <div class="vt" ref={view.scroller} tabIndex={0} role="region" aria-label="Queue list">
      <table class="cards" id="queue-list" aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            <th>Queue</th>
            <th class="num">Waiting</th>
            <th>Depth by place</th>
            <th class="num">Dead</th>
            <th class="num">Oldest</th>
            <th class="num">In/s</th>
            <th class="num">Out/s</th>
            <th class="num">Drains</th>
            <th class="lo2">Completed, 30 m</th>
            <th class="num lo2">Leased</th>
            <th>
              <span class="sr">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          <PadRow columns={11} px={view.before} />
          {rows.slice(view.from, view.to).map((row, at) => (
            <Row key={row.name} row={row} top={top} index={view.from + at} />
          ))}
          <PadRow columns={11} px={view.after} />
        </tbody>
      </table>
    </div>
  );
}

function Row({ row, top, index }: { row: QueueRow; top: number; index: number }): JSX.Element {
  const { name, pause } = row;
  return (
    <tr data-row="" aria-rowindex={index + 2}>
      <td class={`full name ${pause === undefined ? "" : "two"}`}>
        <a class="qname" href={href(`/queues/${encodeURIComponent(name)}`)}>
          <bdi>{name}</bdi>
        </a>
        {pause === undefined ? null : (
          <span class="sub warn">
            Paused by <bdi>{pause.by}</bdi> <Time at={pause.at} />
            {pause.reason === undefined ? null : (
              <>
                : <Given text={pause.reason} max={200} />
              </>
            )}
          </span>
        )}
      </td>
      <td class="num" data-l="Waiting">
        <b>{count(row.waiting)}</b>
      </td>
      <td class="full bar">
        <DepthBar of={row} top={top} />
      </td>
      <td class={`num ${row.dead > 0 ? "bad" : "faint"}`} data-l="Dead">
        {row.dead === 0 ? (
          "0"
        ) : (
          <a class="bad" href={href("/failures", { queue: name })}>
            {count(row.dead)}
          </a>
        )}
      </td>
      <PaceCells row={row} />
      <td class="num" data-l="Drains">
        <Drain row={row} />
      </td>
      <td class="lo2 gone">
        <QueueTrend queue={name} />
      </td>
      <td class={`num lo2 gone ${isFull(row) ? "warn" : ""}`}>
        {count(row.leased)}
        {row.leasedMax === undefined ? "" : ` of ${count(row.leasedMax)}`}
      </td>
      <td>
        <div class="acts">
          <Act
            class="btn ghost icon sm"
            aria-label={`${pause === undefined ? "Pause" : "Resume"} ${name}`}
            onClick={() => (pause === undefined ? askPauseQueue(row) : resumeQueue(name))}
          >
            <Icon name={pause === undefined ? "pause" : "play"} small />
          </Act>
        </div>
      </td>
    </tr>
  );
}

function isFull({ leased, leasedMax }: QueueRow): boolean {
  return leasedMax !== undefined && leased >= leasedMax;
}

function Drain({ row }: { readonly row: QueueRow }): JSX.Element {
  const text = drainText(row);
  const level = text === "paused" ? "st-warn" : text === "growing" ? "st-dead" : "";
  return (
    <span class={`st ${level}`}>
      {text === "growing" ? <Icon name="up" small /> : null}
      {text.replace("drains in ", "")}
    </span>
  );
}
