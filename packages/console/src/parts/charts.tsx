/** Small SVG charts in the colours of the theme, with a description for screen readers. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, rate } from "../format.ts";
import type { QueueRow } from "../model/queues.ts";
import { type RatePoint, useTrend } from "../model/series.ts";

const height = 240;
const left = 44;
const bottom = 20;
const top = 12;

/** Tasks per second over time: enqueued dashed, completed solid, failed attempts as bars; from zero. */
export function RateChart({ points }: { readonly points: readonly RatePoint[] }): JSX.Element {
  const { element, width } = useWidth(240);
  const [at, setAt] = useState<number>();
  const most = niceMax(
    Math.max(...points.flatMap((each) => [each.enqueued, each.completed, each.failed])),
  );
  const plot = { width: width - left, height: height - bottom - top };
  const x = (index: number): number => left + (index / Math.max(1, points.length - 1)) * plot.width;
  const y = (value: number): number => top + plot.height - (value / most) * plot.height;
  const line = (of: (point: RatePoint) => number): string =>
    points
      .map(
        (point, index) =>
          `${index === 0 ? "M" : "L"}${x(index).toFixed(1)} ${y(of(point)).toFixed(1)}`,
      )
      .join("");
  const bar = plot.width / Math.max(1, points.length);
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => most * part);
  const hovered = at === undefined ? undefined : points[at];
  const last = points.at(-1);
  const label =
    last === undefined
      ? "No data"
      : `Tasks per second; now ${rate(last.enqueued)} enqueued, ${rate(last.completed)} completed, ${rate(last.failed)} failed attempts`;
  return (
    <div class="chart" ref={element}>
      <svg
        height={height}
        viewBox={`0 0 ${width} ${height}`}
        role="img"
        aria-label={label}
        onMouseMove={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const index = Math.round(
            ((event.clientX - box.left - left) / plot.width) * (points.length - 1),
          );
          setAt(Math.max(0, Math.min(points.length - 1, index)));
        }}
        onMouseLeave={() => setAt(undefined)}
      >
        {marks.map((value) => (
          <g key={value}>
            <line
              class="grid"
              x1={left}
              x2={width}
              y1={Math.round(y(value))}
              y2={Math.round(y(value))}
            />
            <text x={left - 8} y={y(value) + 4} text-anchor="end">
              {Number(value.toPrecision(2)).toLocaleString("en-US")}
            </text>
          </g>
        ))}
        {[0, 0.5, 1].map((part) => (
          <text
            key={part}
            x={left + part * plot.width}
            y={height - 2}
            text-anchor={part === 0 ? "start" : part === 1 ? "end" : "middle"}
          >
            {clock(points[Math.round(part * (points.length - 1))]?.atMs)}
          </text>
        ))}
        {points.map((point, index) =>
          point.failed === 0 ? null : (
            <rect
              key={point.atMs}
              class="s-fail"
              x={x(index) - bar / 2}
              y={y(point.failed)}
              width={Math.max(1, bar - 1)}
              height={y(0) - y(point.failed)}
            />
          ),
        )}
        <path
          class="a-out"
          d={`${line((each) => each.completed)}L${width} ${y(0)}L${left} ${y(0)}Z`}
        />
        <path class="s-in" d={line((each) => each.enqueued)} />
        <path class="s-out" d={line((each) => each.completed)} />
        {at === undefined || hovered === undefined ? null : (
          <line class="cross" x1={x(at)} x2={x(at)} y1={top} y2={top + plot.height} />
        )}
      </svg>
      {at === undefined || hovered === undefined ? null : (
        <div
          class="tip float"
          style={{ left: `${Math.min(x(at) + 12, width - 160)}px`, top: "24px" }}
        >
          <b>{clock(hovered.atMs)}</b>
          {curves.map(({ name, value }) => (
            <div key={name}>
              <span>{name}</span>
              <b>{rate(value(hovered))}/s</b>
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

/** The current width of an element in pixels, at least `least`. */
export function useWidth(least: number) {
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    const box = element.current;
    if (box === null) return undefined;
    const observer = new ResizeObserver(() => setWidth(Math.max(least, box.clientWidth)));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  return { element, width };
}

function clock(ms: number | undefined): string {
  if (ms === undefined) return "";
  const at = new Date(ms);
  return `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
}

/** The next of 1, 2, 4, 5 or 8 times a power of ten: quarters of it are easy to read. */
function niceMax(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 4, 5, 8, 10].find((step) => step * power >= value) ?? 10) * power;
}

export function RateLegend({ last }: { readonly last: RatePoint | undefined }): JSX.Element {
  return (
    <div class="legend row wrap">
      {curves.map(({ name, look, value }) => (
        <span key={name}>
          <i class={`key ${look}`} />
          {name} <b>{rate(last === undefined ? 0 : value(last))}</b>
        </span>
      ))}
    </div>
  );
}

const curves = [
  { name: "Enqueued", look: "k-in", value: ({ enqueued }: RatePoint) => enqueued },
  { name: "Completed", look: "k-out", value: ({ completed }: RatePoint) => completed },
  { name: "Failed attempts", look: "k-fail", value: ({ failed }: RatePoint) => failed },
] as const;

interface SparklineProps {
  readonly values: readonly number[];
  /** For screen readers. */
  readonly label: string;
  readonly tone?: "dead" | "accent";
}

const spark = { width: 96, height: 24 };

export function Sparkline({ values, label, tone = "accent" }: SparklineProps): JSX.Element {
  const { width, height } = spark;
  const most = Math.max(1, ...values);
  const step = width / Math.max(1, values.length);
  return (
    <svg
      class={`spark spark-${tone}`}
      {...spark}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
    >
      <line x1="0" x2={width} y1={height - 0.5} y2={height - 0.5} />
      {values.map((value, at) => {
        const size = value === 0 ? 0 : Math.max(2, (value / most) * (height - 2));
        return size === 0 ? null : (
          <rect
            key={`${at}`}
            x={at * step}
            y={height - size}
            width={Math.max(1, step - 1)}
            height={size}
          />
        );
      })}
    </svg>
  );
}

export function QueueTrend({ queue }: { readonly queue: string }): JSX.Element {
  const { data = [] } = useTrend(queue);
  const sum = data.reduce((total, each) => total + each, 0);
  return <Sparkline values={data} label={`${count(sum)} completed in the last 30 minutes`} />;
}

const barPlaces = ["ready", "delayed", "leased", "dead"] as const;

/** The length is the logarithm of the total; the parts are in proportion. */
export function DepthBar({
  of,
  top,
}: {
  readonly of: QueueRow;
  readonly top: number;
}): JSX.Element {
  const total = barPlaces.reduce((sum, place) => sum + of[place], 0);
  const length = total === 0 ? 0 : Math.max(3, (Math.log10(total + 1) / Math.log10(top + 1)) * 100);
  const label = barPlaces.map((place) => `${place} ${count(of[place])}`).join(", ");
  let x = 0;
  const parts = barPlaces
    .filter((place) => of[place] > 0)
    .map((place) => {
      const width = Math.max(1.4, (of[place] / total) * length);
      const from = x;
      x += width;
      return { place, from, width: Math.max(0.6, width - 0.6) };
    });
  return (
    <div class="depth">
      <svg
        class="stack"
        viewBox="0 0 100 8"
        preserveAspectRatio="none"
        role="img"
        aria-label={label}
      >
        <title>{label}</title>
        {parts.map(({ place, from, width }) => (
          <rect key={place} class={`f t-${place}`} x={from} y="0" width={width} height="8" />
        ))}
      </svg>
    </div>
  );
}
