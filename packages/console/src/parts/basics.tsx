/** Small parts that every page uses: times, states, untrusted text, links, panels, lists. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api.ts";
import { count, everyTime, shortId, time, visible, workerName } from "../format.ts";
import { timeMode, useNow } from "../preferences.ts";
import { href } from "../router.ts";
import { useStore } from "../store.ts";
import { tell, tellProblem } from "../toasts.tsx";
import { Button } from "./buttons.tsx";
import { Icon, type IconName } from "./icon.tsx";

export type StateName =
  | "ready"
  | "delayed"
  | "held"
  | "leased"
  | "dead"
  | "done"
  | "failed"
  | "cancelled";

const states: Readonly<Record<StateName, { word: string; tone: string }>> = {
  ready: { word: "Ready", tone: "ready" },
  delayed: { word: "Delayed", tone: "delayed" },
  held: { word: "Held", tone: "delayed" },
  leased: { word: "Leased", tone: "leased" },
  dead: { word: "Dead", tone: "dead" },
  done: { word: "Done", tone: "done" },
  failed: { word: "Failed", tone: "dead" },
  cancelled: { word: "Cancelled", tone: "mute" },
};

export function State(props: { name: StateName; pill?: boolean; word?: string }): JSX.Element {
  const { word, tone } = states[props.name];
  return (
    <span class={`st t-${tone} ${props.pill === true ? "pill" : ""}`}>
      <Icon name={props.name} small={props.pill === true} />
      {props.word ?? word}
    </span>
  );
}

export function Badge(props: { icon: IconName; tone: string; children: ComponentChildren }) {
  return (
    <span class={`st t-${props.tone}`}>
      <Icon name={props.icon} small />
      {props.children}
    </span>
  );
}

interface TimeProps {
  readonly at: string | number | undefined;
  /** Shown when there is no time. */
  readonly none?: ComponentChildren;
}

export function Time({ at, none = null }: TimeProps): JSX.Element {
  const mode = useStore(timeMode);
  const nowMs = useNow();
  if (at === undefined) return <>{none}</>;
  const ms = typeof at === "number" ? at : Date.parse(at);
  return (
    <time dateTime={new Date(ms).toISOString()} title={everyTime(ms, nowMs)}>
      {time(ms, mode, nowMs)}
    </time>
  );
}

/** Untrusted text: never markup, and invisible characters are shown as symbols. */
export function Given({ text, max = 4000 }: { text: string; max?: number }): JSX.Element {
  const cut =
    text.length > max ? `${text.slice(0, max)}… (${count(text.length)} characters)` : text;
  return <bdi>{visible(cut)}</bdi>;
}

export function Reason({ text, max }: { text: string | undefined; max: number }) {
  if (text === undefined) return null;
  return (
    <>
      : <Given text={text} max={max} />
    </>
  );
}

export function queueHref(name: string): string {
  return href(`/queues/${encodeURIComponent(name)}`);
}

export function QueueLink({ name, onClick }: { name: string; onClick?: () => void }): JSX.Element {
  return (
    <a
      class="qname"
      href={queueHref(name)}
      title={name}
      {...(onClick === undefined ? {} : { onClick })}
    >
      <bdi>{name}</bdi>
    </a>
  );
}

/** A worker by the name that it gave itself; the whole id is in the tooltip. */
export function WorkerName({ id }: { readonly id: string }): JSX.Element {
  return (
    <span class="short" title={id}>
      <Given text={workerName(id)} max={120} />
    </span>
  );
}

export function TaskLink({ id }: { readonly id: string }): JSX.Element {
  return (
    <a class="mono" href={href(`/tasks/${id}`)} title={id}>
      {shortId(id)}
    </a>
  );
}

export function Kbd({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return (
    <span class="kbd" aria-hidden="true">
      {children}
    </span>
  );
}

interface PageHeadProps {
  readonly title: ComponentChildren;
  readonly about?: ComponentChildren;
  readonly children?: ComponentChildren;
}

export function PageHead({ title, about, children }: PageHeadProps): JSX.Element {
  return (
    <div class="page-head">
      <div>
        <h1>{title}</h1>
        {about === undefined ? null : <p>{about}</p>}
      </div>
      {children === undefined ? null : <div class="right row wrap">{children}</div>}
    </div>
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
      <div class="panel-head row wrap">
        <h2 id={`h-${id}`}>{title}</h2>
        {note === undefined ? null : <span class="faint">{note}</span>}
        {actions === undefined ? null : <div class="right row wrap">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

export function Meta({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <span>
      <i>{name}</i>
      {children}
    </span>
  );
}

export type Fact = readonly [name: string, value: ComponentChildren];

export function Facts({ of }: { readonly of: readonly Fact[] }): JSX.Element {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name} class="fact">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Nothing(props: {
  readonly icon?: IconName;
  readonly title: string;
  /** The page shows nothing else. */
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

interface NoteProps {
  readonly icon: IconName;
  readonly tone?: "bad" | "warn" | undefined;
  readonly children: ComponentChildren;
}

export function Note({ icon, tone, children }: NoteProps): JSX.Element {
  return (
    <p class={`note ${tone ? `is-${tone}` : ""}`} role={tone === "bad" ? "alert" : undefined}>
      <Icon name={icon} />
      <span>{children}</span>
    </p>
  );
}

export function Problem({ text }: { readonly text: string }): JSX.Element | null {
  if (text === "") return null;
  return (
    <Note icon="warn" tone="bad">
      {text}
    </Note>
  );
}

/** Shown while data is loading or could not be loaded; the rest of the page keeps working. */
export function Pending({ error }: { readonly error?: ApiError | undefined }): JSX.Element | null {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 300);
    return () => clearTimeout(timer);
  }, []);
  if (error !== undefined) {
    return (
      <Note icon="warn" tone="bad">
        <b>This could not be loaded.</b> <Given text={error.message} max={300} />
      </Note>
    );
  }
  if (!isSlow) return null;
  return (
    <div class="panel-body why" aria-busy="true">
      <span class="sr">Loading</span>
      {["40%", "80%", "60%"].map((width) => (
        <span key={width} class="skel" style={{ width }} />
      ))}
    </div>
  );
}

export interface RowsProps<Row> {
  /** Undefined while loading. */
  readonly rows: readonly Row[] | undefined;
  readonly error?: ApiError | undefined;
  /** Shown when there are no rows. */
  readonly nothing?: JSX.Element;
}

export function List<Row>({
  rows,
  error,
  nothing,
  children,
}: RowsProps<Row> & { readonly children: (row: Row) => JSX.Element }): JSX.Element {
  if (rows === undefined) return <Pending error={error} />;
  if (rows.length === 0 && nothing !== undefined) return nothing;
  return <ul class="list">{rows.map(children)}</ul>;
}

interface LineProps {
  readonly icon: IconName;
  readonly tone?: string;
  readonly isCut?: boolean;
  readonly action?: ComponentChildren;
  readonly sub?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Line({ icon, tone = "", isCut, action, sub, children }: LineProps): JSX.Element {
  return (
    <li>
      <span class={tone}>
        <Icon name={icon} />
      </span>
      <span class={isCut === true ? "trunc" : ""}>{children}</span>
      {action}
      {sub === undefined ? null : <span class="sub">{sub}</span>}
    </li>
  );
}

export function CodeBox({ text, label = "Code" }: { text: string; label?: string }): JSX.Element {
  return (
    <div class="codebox">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard. */}
      <pre class="code" tabIndex={0} aria-label={label} role="region">
        {text}
      </pre>
      <Button class="icon sm" icon="copy" aria-label="Copy" onClick={() => copyText(text)} />
    </div>
  );
}

export function copyText(text: string, what = "Copied"): void {
  navigator.clipboard?.writeText(text).then(() => tell(what), tellProblem) ??
    tellProblem("The browser copies only on pages with TLS, or on this machine");
}

/** Keys, and what each does: `J K move`. */
export function Hints({ of }: { readonly of: readonly string[] }): JSX.Element {
  return (
    <>
      {of.map((hint) => {
        const [, key, what] = /^(.*) (\S+)$/.exec(hint) ?? [];
        return (
          <span class="hint" key={hint}>
            {key?.split(" ").map((each) => (
              <Kbd key={each}>{each}</Kbd>
            ))}
            {what}
          </span>
        );
      })}
    </>
  );
}
