/** A line of bars without axes: how something went lately. */
import type { JSX } from "preact";

interface SparklineProps {
  readonly values: readonly number[];
  /** What it shows, in words. */
  readonly label: string;
  readonly tone?: "dead" | "accent";
}

const width = 96;
const height = 24;

export function Sparkline({ values, label, tone = "accent" }: SparklineProps): JSX.Element {
  const most = Math.max(1, ...values);
  const step = width / Math.max(1, values.length);
  return (
    <svg
      class={`spark spark-${tone}`}
      width={width}
      height={height}
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
