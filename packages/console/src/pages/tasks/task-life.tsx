/** The life of a task: its places over time, and its attempts with their outcomes. */
import type { JSX } from "preact";
import { duration, plural } from "../../format.ts";
import { type Attempt, attemptNumber, type TaskRow } from "../../model/tasks.ts";
import { Given, Panel, State, type StateName, Time, WorkerName } from "../../parts/basics.tsx";
import { useWidth } from "../../parts/charts.tsx";
import { CardTable, type Column, column, num, title } from "../../parts/tables.tsx";
import { useNow } from "../../preferences.ts";
import { type End, endOf, lifeOf, type Stay } from "../../task-life.ts";

export function TaskLife({ task }: { readonly task: TaskRow }): JSX.Element {
  const nowMs = useNow();
  const stays = lifeOf(task, nowMs);
  const work = stays.filter(({ place }) => place === "leased").reduce(sumMs, 0);
  const waited = stays
    .filter(({ place }) => place === "ready" || place === "delayed" || place === "held")
    .reduce(sumMs, 0);
  const isOver = task.endedAt !== undefined;
  const note = `${isOver ? "ended after" : "so far"} ${duration(work + waited)}: ${duration(work)} of work, ${duration(waited)} of waiting`;
  return (
    <>
      <Panel title="Timeline" id="life" note={note}>
        <div class="panel-body">
          <Lanes stays={stays} isOver={isOver} end={endOf(task)} />
        </div>
      </Panel>
      <Attempts task={task} />
    </>
  );
}

function sumMs(sum: number, { fromMs, toMs }: Stay): number {
  return sum + toMs - fromMs;
}

const laneHeight = 36;
const left = 76;
const right = 20;
const narrowMin = 22;
const wideMin = 44;

interface LanesProps {
  readonly stays: readonly Stay[];
  readonly isOver: boolean;
  readonly end: End;
}

/** One lane for each place; widths grow with the square root of the time. */
function Lanes({ stays, isOver, end }: LanesProps): JSX.Element {
  const { element, width } = useWidth(280);
  const isHeld = stays.some(({ place }) => place === "held");
  const lanes = [isHeld ? "held" : "delayed", "ready", "leased", end] as const;
  const least = Math.min(width < 560 ? narrowMin : wideMin, (width - left - right) / stays.length);
  const roots = stays.map(({ fromMs, toMs }) => Math.sqrt(Math.max(1, toMs - fromMs)));
  const total = roots.reduce((sum, root) => sum + root, 0);
  const free = Math.max(0, width - left - right - least * stays.length);
  const height = lanes.length * laneHeight + 28;
  const y = (place: string): number =>
    4 + Math.max(0, lanes.indexOf(place as "ready")) * laneHeight + laneHeight / 2;
  let x = left;
  const drawn = stays.map((stay, index) => {
    const size = least + ((roots[index] ?? 0) / total) * free;
    const at = x;
    x += size;
    return { ...stay, at, size, y: y(stay.place) };
  });
  const label = stays
    .map(({ place, fromMs, toMs }) => `${place} ${duration(toMs - fromMs)}`)
    .join(", then ");
  return (
    <div
      class="life"
      ref={element}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
      tabIndex={0}
      role="region"
      aria-label="Places of the task over time"
    >
      <svg width={width} height={height} role="img" aria-label={label}>
        {lanes.map((lane) => (
          <g key={lane}>
            <line class="rail" x1={left} x2={width} y1={y(lane) + 0.5} y2={y(lane) + 0.5} />
            <text
              class={`lane t-${lane} ${stays.some(({ place }) => place === lane) ? "" : "unused"}`}
              x="0"
              y={y(lane) + 4}
            >
              {lane[0]?.toUpperCase() + lane.slice(1)}
            </text>
          </g>
        ))}
        {drawn.map((stay, index) => (
          <StayBar
            key={stay.fromMs + stay.place}
            stay={stay}
            fromY={drawn[index - 1]?.y}
            isNarrow={width < 560}
          />
        ))}
        {isOver ? null : (
          <>
            <line class="now" x1={x + 0.5} x2={x + 0.5} y1="0" y2={height - 20} />
            <text class="nowt" x={x} y={height - 4} text-anchor="middle">
              now
            </text>
          </>
        )}
      </svg>
    </div>
  );
}

interface DrawnStay extends Stay {
  readonly at: number;
  readonly size: number;
  readonly y: number;
}

interface StayBarProps {
  readonly stay: DrawnStay;
  /** The y of the stay before. */
  readonly fromY: number | undefined;
  readonly isNarrow: boolean;
}

function StayBar({ stay, fromY, isNarrow }: StayBarProps): JSX.Element {
  const { at, size, y, attempt } = stay;
  const middle = at + size / 2;
  return (
    <g>
      {fromY === undefined ? null : <path class="link" d={`M${at - 0.5} ${fromY}V${y}`} />}
      <rect
        class={`f t-${stay.place}`}
        x={at}
        y={y - 4}
        width={Math.max(1, size - 1)}
        height="8"
        rx="2"
      />
      {size < narrowMin ? null : (
        <text class={`dur ${isNarrow ? "slim" : ""}`} x={middle} y={y - 9} text-anchor="middle">
          {duration(stay.toMs - stay.fromMs)}
        </text>
      )}
      {attempt === undefined || size < wideMin ? null : (
        <text x={middle} y={y + 18} text-anchor="middle">
          {`${isNarrow ? "" : "attempt "}${attempt}${stay.isBad === true ? " ✕" : ""}`}
        </text>
      )}
    </g>
  );
}

const outcomes: Readonly<Record<Attempt["outcome"], { name: StateName; word: string }>> = {
  running: { name: "leased", word: "Running" },
  completed: { name: "done", word: "Completed" },
  cancelled: { name: "cancelled", word: "Cancelled" },
  interrupted: { name: "ready", word: "Handed back" },
  unsent: { name: "cancelled", word: "Not sent" },
  failed: { name: "failed", word: "Failed" },
  nacked: { name: "failed", word: "Failed" },
  abandoned: { name: "failed", word: "Abandoned" },
  expired: { name: "failed", word: "Lease expired" },
  timed_out: { name: "failed", word: "Timed out" },
};

function Attempts({ task }: { readonly task: TaskRow }): JSX.Element {
  const attempts = [...(task.attemptHistory ?? [])].reverse();
  const note =
    attempts.length === 0
      ? "none yet"
      : `${attemptNumber(task)} of ${task.maxAttempts}, newest first`;
  return (
    <Panel title="Attempts" id="attempts" note={note}>
      <CardTable
        rows={attempts}
        id={({ leaseToken }) => String(leaseToken)}
        columns={columns}
        nothing={<p class="panel-body muted">No worker has had the task yet.</p>}
      />
      {task.attemptsOmitted === undefined ? null : (
        <div class="panel-foot sub row wrap">
          {plural(task.attemptsOmitted, "earlier attempt is", "earlier attempts are")} not kept.
        </div>
      )}
    </Panel>
  );
}

/** The worker had the task, but gave it back unworked: no attempt is used up, and it is not a retry. */
const uncounted: ReadonlySet<string> = new Set(["interrupted", "unsent"]);

const columns: readonly Column<Attempt>[] = [
  title("Outcome", ({ outcome }) => <State {...outcomes[outcome]} />, ""),
  title(
    "Error and worker",
    ({ error, stack, workerId, leaseToken }) => (
      <>
        {error === undefined ? null : (
          <code class="lines">
            <Given text={error} max={400} />
          </code>
        )}
        {stack === undefined ? null : (
          <details>
            <summary>Stack</summary>
            <code class="lines">
              <Given text={stack} />
            </code>
          </details>
        )}
        <span class="sub">
          <WorkerName id={workerId} />, lease token {leaseToken}
        </span>
      </>
    ),
    "full two",
  ),
  num("Started", ({ startedAt }) => <Time at={startedAt} />),
  num("Took", ({ startedAt, endedAt }) =>
    endedAt === undefined ? "–" : duration(Date.parse(endedAt) - Date.parse(startedAt)),
  ),
  column(
    "Then",
    ({ delaySeconds, outcome }) =>
      uncounted.has(outcome)
        ? "not counted"
        : delaySeconds === undefined
          ? ""
          : `retry in ${duration(delaySeconds * 1000)}`,
    "faint nowrap",
  ),
];
