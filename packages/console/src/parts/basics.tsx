/** Small parts that every page uses: states, times, texts from outside, bars, panels. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api.ts";
import { count, everyTime, time, visible } from "../format.ts";
import { timeMode, useNow } from "../preferences.ts";
import { useStore } from "../store.ts";
import { Icon, type IconName } from "./icon.tsx";

export type StateName = "ready" | "delayed" | "leased" | "dead" | "done" | "failed" | "cancelled";

const states: Readonly<Record<StateName, { icon: IconName; word: string; tone: string }>> = {
  ready: { icon: "ready", word: "Ready", tone: "ready" },
  delayed: { icon: "delayed", word: "Delayed", tone: "delayed" },
  leased: { icon: "leased", word: "Leased", tone: "leased" },
  dead: { icon: "dead", word: "Dead", tone: "dead" },
  done: { icon: "done", word: "Done", tone: "done" },
  failed: { icon: "failed", word: "Failed", tone: "dead" },
  cancelled: { icon: "cancelled", word: "Cancelled", tone: "mute" },
};

export function State(props: { name: StateName; pill?: boolean; word?: string }): JSX.Element {
  const { icon, word, tone } = states[props.name];
  return (
    <span class={`st st-${tone} ${props.pill === true ? "pill" : ""}`}>
      <Icon name={icon} small={props.pill === true} />
      {props.word ?? word}
    </span>
  );
}

export function Time({ at }: { readonly at: string | number }): JSX.Element {
  const mode = useStore(timeMode);
  const nowMs = useNow();
  const ms = typeof at === "number" ? at : Date.parse(at);
  return (
    <time dateTime={new Date(ms).toISOString()} title={everyTime(ms, nowMs)}>
      {time(ms, mode, nowMs)}
    </time>
  );
}

/** Text from outside: never markup, and what cannot be seen is shown. */
export function Given({ text, max = 4000 }: { text: string; max?: number }): JSX.Element {
  const cut =
    text.length > max ? `${text.slice(0, max)}… (${count(text.length)} characters)` : text;
  return <bdi>{visible(cut)}</bdi>;
}

export function Kbd({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return (
    <span class="kbd" aria-hidden="true">
      {children}
    </span>
  );
}

interface PanelProps {
  readonly title: string;
  readonly id: string;
  readonly note?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Panel({ title, id, note, actions, children }: PanelProps): JSX.Element {
  return (
    <section class="panel" aria-labelledby={`h-${id}`} id={id}>
      <div class="panel-head">
        <h2 id={`h-${id}`}>{title}</h2>
        {note === undefined ? null : <span class="faint">{note}</span>}
        {actions === undefined ? null : <div class="right">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

export function Nothing(props: {
  readonly icon?: IconName;
  readonly title: string;
  /** It is all that there is on the page. */
  readonly isPage?: boolean;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="nothing">
      <Icon name={props.icon ?? "search"} />
      {props.isPage === true ? <h1>{props.title}</h1> : <h2>{props.title}</h2>}
      {props.children}
    </div>
  );
}

/** Instead of data that is not there yet, or did not come. A failed panel does not take the page with it. */
export function Pending({ error }: { readonly error?: ApiError | undefined }): JSX.Element | null {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 300);
    return () => clearTimeout(timer);
  }, []);
  if (error !== undefined) {
    return (
      <p class="note is-bad" role="alert">
        <Icon name="warn" />
        <span>
          <b>This could not be loaded.</b> <Given text={error.message} max={300} />
        </span>
      </p>
    );
  }
  if (!isSlow) return null;
  return (
    <div class="panel-body why" aria-busy="true">
      <span class="sr">Loading</span>
      <span class="skel w-40" />
      <span class="skel w-80" />
      <span class="skel w-60" />
    </div>
  );
}

export interface Depths {
  readonly ready: number;
  readonly delayed: number;
  readonly leased: number;
  readonly dead: number;
}

const barPlaces = ["ready", "delayed", "leased", "dead"] as const;

/** The length is the logarithm of the total; the parts are in proportion. */
export function DepthBar({ of, top }: { readonly of: Depths; readonly top: number }): JSX.Element {
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
          <rect key={place} class={`f-${place}`} x={from} y="0" width={width} height="8" />
        ))}
      </svg>
    </div>
  );
}

export function Choices<T extends string>(props: {
  readonly label: string;
  readonly options: readonly (readonly [T, ComponentChildren])[];
  readonly value: T;
  readonly onChange: (value: T) => void;
  readonly large?: boolean;
}): JSX.Element {
  return (
    <fieldset class={`seg ${props.large === true ? "lg" : ""}`}>
      <legend class="sr">{props.label}</legend>
      {props.options.map(([value, text]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {text}
        </button>
      ))}
    </fieldset>
  );
}
