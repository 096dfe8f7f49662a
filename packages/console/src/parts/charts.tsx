/** Small SVG charts in the colours of the theme, with a description for screen readers. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, duration, rate } from "../format.ts";
import type { QueueRow } from "../model/queues.ts";
import { type SeriesPoint, useTrend } from "../model/series.ts";
import { niceMax, niceTimeMax } from "./scale.ts";

const height = 240;
const left = 44;
const bottom = 20;
const top = 12;

interface Curve<Point> {
  readonly name: string;
  /** A dashed line, a line with an area below, or bars. */
  readonly look: "in" | "out" | "fail";
  /** Undefined where there was nothing to measure. */
  readonly value: (point: Point) => number | undefined;
}

interface ChartProps<Point> {
  readonly points: readonly Point[];
  readonly curves: readonly Curve<Point>[];
  readonly show: (value: number) => string;
  /** The end of the scale where all values are smaller; `show` tells its quarters apart. */
  readonly least: number;
  /** The end of a scale that has the value. */
  readonly maxOf: (value: number) => number;
  /** For screen readers, before the last values. */
  readonly label: string;
}

/** Values over time, from zero, with a legend that has the last values. */
function Chart<Point extends { readonly atMs: number }>(props: ChartProps<Point>): JSX.Element {
  const { points, curves, show, least, maxOf, label } = props;
  const { element, width } = useWidth(240);
  const [at, setAt] = useState<number>();
  const most = maxOf(
    Math.max(least, ...points.flatMap((each) => curves.map(({ value }) => value(each) ?? 0))),
  );
  const plot = { width: width - left, height: height - bottom - top };
  const x = (index: number): number => left + (index / Math.max(1, points.length - 1)) * plot.width;
  const y = (value: number): number => top + plot.height - (value / most) * plot.height;
  const bar = plot.width / Math.max(1, points.length);
  const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => most * part);
  const hovered = at === undefined ? undefined : points[at];
  const shown = (value: number | undefined): string => (value === undefined ? "–" : show(value));
  const last = curves.map(({ name, value }) => `${name} ${shown(lastOf(points, value))}`);
  return (
    <>
      <Legend points={points} curves={curves} shown={shown} />
      <div class="chart" ref={element}>
        <svg
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="img"
          aria-label={`${label}: ${last.join(", ")}`}
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
                {show(value)}
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
          {curves.map((curve) => (
            <Drawn key={curve.name} curve={curve} points={points} bar={bar} x={x} y={y} />
          ))}
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
                <b>{shown(value(hovered))}</b>
              </div>
            ))}
          </div>
        )}
      </div>
    </>
  );
}

function lastOf<Point>(points: readonly Point[], value: Curve<Point>["value"]): number | undefined {
  return points.reduce<number | undefined>((last, point) => value(point) ?? last, undefined);
}

interface DrawnProps<Point> {
  readonly curve: Curve<Point>;
  readonly points: readonly Point[];
  /** The width of a bar. */
  readonly bar: number;
  readonly x: (index: number) => number;
  readonly y: (value: number) => number;
}

function Drawn<Point>({ curve, points, bar, x, y }: DrawnProps<Point>): JSX.Element {
  const found = points.flatMap((point, index) => {
    const value = curve.value(point);
    return value === undefined ? [] : [{ x: x(index), y: y(value), value }];
  });
  if (curve.look === "fail") {
    return (
      <>
        {found.map(({ x: middle, y: above, value }) =>
          value === 0 ? null : (
            <rect
              key={middle}
              class="s-fail"
              x={middle - bar / 2}
              y={above}
              width={Math.max(1, bar - 1)}
              height={y(0) - above}
            />
          ),
        )}
      </>
    );
  }
  // A point that stands alone is a dot.
  const line = found
    .map((point, index) => `${index === 0 ? "M" : "L"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`)
    .concat(found.length === 1 ? ["h0"] : [])
    .join("");
  const [first, last] = [found.at(0), found.at(-1)];
  return (
    <>
      {curve.look === "in" || first === undefined || last === undefined ? null : (
        <path class="a-out" d={`${line}L${last.x} ${y(0)}L${first.x} ${y(0)}Z`} />
      )}
      <path class={`s-${curve.look}`} d={line} stroke-linecap="round" />
    </>
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

function Legend<Point>({
  points,
  curves,
  shown,
}: Pick<ChartProps<Point>, "points" | "curves"> & {
  readonly shown: (value: number | undefined) => string;
}): JSX.Element {
  return (
    <div class="legend row wrap">
      {curves.map(({ name, look, value }) => (
        <span key={name}>
          <i class={`key k-${look}`} />
          {name} <b>{shown(lastOf(points, value))}</b>
        </span>
      ))}
    </div>
  );
}

const rates: readonly Curve<SeriesPoint>[] = [
  { name: "Failed attempts", look: "fail", value: ({ failed }) => failed },
  { name: "Enqueued", look: "in", value: ({ enqueued }) => enqueued },
  { name: "Completed", look: "out", value: ({ completed }) => completed },
];

export function RateChart({ points }: { readonly points: readonly SeriesPoint[] }): JSX.Element {
  return (
    <Chart
      points={points}
      curves={rates}
      show={rate}
      least={0.4}
      maxOf={niceMax}
      label="Tasks per second; now"
    />
  );
}

const times = {
  wait: [
    { name: "99th percentile", look: "in", value: ({ waitP99Ms }) => waitP99Ms },
    { name: "Median", look: "out", value: ({ waitP50Ms }) => waitP50Ms },
  ],
  run: [
    { name: "99th percentile", look: "in", value: ({ runP99Ms }) => runP99Ms },
    { name: "Median", look: "out", value: ({ runP50Ms }) => runP50Ms },
  ],
} as const satisfies Readonly<Record<string, readonly Curve<SeriesPoint>[]>>;

/** How long tasks waited for a worker, or how long their attempts took. */
export function TimeChart({
  of,
  points,
}: {
  readonly of: keyof typeof times;
  readonly points: readonly SeriesPoint[];
}): JSX.Element {
  const label = of === "wait" ? "Time until a worker claims a task" : "Time that an attempt takes";
  return (
    <Chart
      points={points}
      curves={times[of]}
      show={duration}
      least={4}
      maxOf={niceTimeMax}
      label={label}
    />
  );
}

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
