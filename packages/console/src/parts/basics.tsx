/** Small parts that every page uses: times, states, texts from outside, links, panels, lists and their states. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api.ts";
import { count, everyTime, shortId, time, visible } from "../format.ts";
import { timeMode, useNow } from "../preferences.ts";
import { href } from "../router.ts";
import { useStore } from "../store.ts";
import { tell, tellProblem } from "../toasts.tsx";
import { Button } from "./buttons.tsx";
import { Icon, type IconName } from "./icon.tsx";

export type StateName = "ready" | "delayed" | "leased" | "dead" | "done" | "failed" | "cancelled";

const states: Readonly<Record<StateName, { word: string; tone: string }>> = {
  ready: { word: "Ready", tone: "ready" },
  delayed: { word: "Delayed", tone: "delayed" },
  leased: { word: "Leased", tone: "leased" },
  dead: { word: "Dead", tone: "dead" },
  done: { word: "Done", tone: "done" },
  failed: { word: "Failed", tone: "dead" },
  cancelled: { word: "Cancelled", tone: "mute" },
};

export function State(props: { name: StateName; pill?: boolean; word?: string }): JSX.Element {
  const { word, tone } = states[props.name];
  return (
    <span class={`st st-${tone} ${props.pill === true ? "pill" : ""}`}>
      <Icon name={props.name} small={props.pill === true} />
      {props.word ?? word}
    </span>
  );
}

/** A word with an icon and a colour. */
export function Badge(props: { icon: IconName; tone: string; children: ComponentChildren }) {
  return (
    <span class={`st st-${props.tone}`}>
      <Icon name={props.icon} small />
      {props.children}
    </span>
  );
}

interface TimeProps {
  readonly at: string | number | undefined;
  /** Instead of a time that is missing. */
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

/** Text from outside: never markup, and characters that cannot be seen are shown as symbols. */
export function Given({ text, max = 4000 }: { text: string; max?: number }): JSX.Element {
  const cut =
    text.length > max ? `${text.slice(0, max)}… (${count(text.length)} characters)` : text;
  return <bdi>{visible(cut)}</bdi>;
}

/** The reason that a person gave, after a colon. */
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
    <a class="qname" href={queueHref(name)} {...(onClick === undefined ? {} : { onClick })}>
      <bdi>{name}</bdi>
    </a>
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
  /** Buttons. */
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

/** A value with its name in front. */
export function Meta({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <span>
      <i>{name}</i>
      {children}
    </span>
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

/** What the server refused with; nothing when the text is empty. */
export function Problem({ text }: { readonly text: string }): JSX.Element | null {
  if (text === "") return null;
  return (
    <Note icon="warn" tone="bad">
      {text}
    </Note>
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
  /** Undefined until they are loaded. */
  readonly rows: readonly Row[] | undefined;
  readonly error?: ApiError | undefined;
  /** Instead of no rows. */
  readonly nothing?: JSX.Element;
}

/** A list that is loading, could not be loaded, is empty, or is shown. */
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
  /** Long text is cut at the end of the line. */
  readonly isCut?: boolean;
  readonly action?: ComponentChildren;
  /** Below, in small letters. */
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

/** Text to be copied. */
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
