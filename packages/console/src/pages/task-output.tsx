/** What a task carries and what came of it: payload, result and error, the report of its worker, its files. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { apiHeaders, curlOf, type Request, urlOf } from "../api.ts";
import { bytes, plural, visible } from "../format.ts";
import { jsonLines, linesMax } from "../json-lines.ts";
import { saveBlob } from "../model/download.ts";
import { type InspectedTask, type TaskRow, taskPath } from "../model/tasks.ts";
import { copyText, Given, Line, List, Nothing, Panel, Time } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { payloads } from "../preferences.ts";
import { hidesPayloads, session } from "../session.ts";
import { useStore } from "../store.ts";
import { tell, tellProblem } from "../toasts.tsx";

const tabs = { payload: "Payload", result: "Result", error: "Error" } as const;
type Tab = keyof typeof tabs;

export function TaskTexts({ inspected }: { readonly inspected: InspectedTask }): JSX.Element {
  const { task, result, resultText } = inspected;
  useStore(session);
  const isHiddenByServer = hidesPayloads();
  const isHidden = useStore(payloads) === "hidden" || isHiddenByServer;
  const texts: Readonly<Record<Tab, string | undefined>> = {
    payload: task.payload,
    result: resultText,
    error: result?.error ?? task.error,
  };
  const [tab, setTab] = useState<Tab>("payload");
  const text = texts[tab];
  return (
    <section class="panel" aria-label="Payload and result">
      <div class="panel-head row wrap">
        <div class="views" role="tablist" aria-label="What to show">
          {(Object.keys(tabs) as Tab[]).map((each) => (
            <button
              key={each}
              type="button"
              role="tab"
              id={`tab-${each}`}
              aria-selected={tab === each}
              aria-controls="task-text"
              onClick={() => setTab(each)}
            >
              {tabs[each]}{" "}
              {texts[each] === undefined ? null : (
                <span class="sub">{bytes(new Blob([texts[each] ?? ""]).size)}</span>
              )}
            </button>
          ))}
        </div>
        <div class="right row wrap">
          {isHiddenByServer ? null : (
            <Button
              class="ghost sm"
              icon="eyeoff"
              onClick={() => payloads.set(isHidden ? "shown" : "hidden")}
            >
              {isHidden ? "Show" : "Hide"}
            </Button>
          )}
          <Button
            class="ghost sm"
            icon="copy"
            disabled={text === undefined}
            onClick={() => copyText(text ?? "")}
          >
            Copy
          </Button>
        </div>
      </div>
      <div role="tabpanel" id="task-text" aria-labelledby={`tab-${tab}`}>
        {isHiddenByServer && tab !== "error" ? (
          <Nothing icon="eyeoff" title="Your API key hides payloads and results">
            <p>Ask an admin for a key without the scope codeq:payloads-hidden.</p>
          </Nothing>
        ) : isHidden && !isHiddenByServer ? (
          <Nothing icon="eyeoff" title="Hidden on this screen" />
        ) : text === undefined ? (
          <Nothing icon="tasks" title={missing(tab, task)} />
        ) : (
          <JsonView text={text} label={tabs[tab]} />
        )}
      </div>
    </section>
  );
}

function missing(tab: Tab, { place, payloadOmitted }: TaskRow): string {
  if (tab === "payload")
    return payloadOmitted === true ? "The payload is too long to show" : "No payload";
  if (tab === "error") return "No attempt has failed";
  return place === "done" || place === "failed" || place === "dead"
    ? "The task has no result"
    : "The task has not finished yet";
}

const pieceLooks = {
  key: "jk",
  string: "js",
  number: "jn",
  word: "jn",
  mark: "jp",
  text: "js",
} as const;

/** JSON as it was sent: numbers exactly, everything else as text. */
function JsonView({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  const lines = jsonLines(text);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
    <div class="json" tabIndex={0} role="region" aria-label={label}>
      {lines.map(({ depth, pieces }, at) => (
        <div key={`${at}`}>
          {"  ".repeat(depth)}
          {pieces.map((piece, index) => (
            <span key={`${index}`} class={pieceLooks[piece.kind]}>
              {visible(piece.text)}
              {piece.isExact === true ? <span class="exact">exact</span> : null}
            </span>
          ))}
        </div>
      ))}
      {lines.length >= linesMax ? <div>… the rest is not shown; copy it instead</div> : null}
    </div>
  );
}

/** What the worker says while it works: how far it is, and its log. */
export function TaskReport({ task }: { readonly task: TaskRow }): JSX.Element | null {
  const { progress, logs = [] } = task;
  if (progress === undefined && logs.length === 0) return null;
  const note = logs.length === 0 ? undefined : `last ${plural(logs.length, "line")}`;
  return (
    <Panel title="Progress and log" id="report" note={note}>
      {progress === undefined ? null : (
        <div class="panel-body report row wrap">
          <progress value={progress.percent} max={100} aria-label="Progress of the task" />
          <b>{progress.percent}%</b>
          <span class="grow">
            <Given text={progress.text} max={300} />
          </span>
          <span class="faint">
            <Time at={progress.at} />
          </span>
        </div>
      )}
      {logs.length === 0 ? null : <LogLines logs={logs} />}
    </Panel>
  );
}

/** Stays at the end while somebody looks at the end. */
function LogLines({ logs }: { readonly logs: NonNullable<TaskRow["logs"]> }): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const box = element.current;
    if (box !== null && isAtEnd.current) box.scrollTop = box.scrollHeight;
  }, [logs]);
  return (
    <div
      class="log"
      ref={element}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
      tabIndex={0}
      role="log"
      aria-label="Log of the task"
      onScroll={({ currentTarget: box }) => {
        isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 8;
      }}
    >
      {logs.map(({ at, text }, index) => (
        <div key={`${at} ${index}`}>
          <span class="faint">
            <Time at={at} />
          </span>
          <Given text={text} max={2000} />
        </div>
      ))}
    </div>
  );
}

type Artifact = NonNullable<NonNullable<InspectedTask["result"]>["artifacts"]>[number];

/** Larger files would have to fit into the memory of the page. */
const savedBytesMax = 256 * 1024 * 1024;

export function TaskFiles(props: {
  readonly id: string;
  readonly artifacts: readonly Artifact[];
}): JSX.Element {
  const { id, artifacts } = props;
  return (
    <Panel title="Artifacts" id="artifacts" note={plural(artifacts.length, "file")}>
      <List rows={artifacts}>
        {(artifact) => <ArtifactLine key={artifact.name} id={id} artifact={artifact} />}
      </List>
    </Panel>
  );
}

function ArtifactLine({ id, artifact }: { id: string; artifact: Artifact }): JSX.Element {
  const { name, url, contentType } = artifact;
  const file = { path: taskPath(id, `/artifacts/${encodeURIComponent(name)}`) };
  const isOurs = artifact.sha256 !== undefined;
  const isSmall = (artifact.bytes ?? 0) <= savedBytesMax;
  const action =
    isOurs && isSmall ? (
      <Button class="sm" aria-label={`Download ${name}`} onClick={() => void save(file, name)}>
        Download
      </Button>
    ) : (
      <Button class="sm" onClick={() => copyText(isOurs ? getFile(file, name) : url)}>
        {isOurs ? "Copy as curl" : "Copy link"}
      </Button>
    );
  return (
    <Line
      icon="download"
      isCut
      action={action}
      sub={isOurs ? undefined : <Given text={url} max={200} />}
    >
      <b>
        <Given text={name} max={200} />
      </b>{" "}
      <span class="faint">
        {artifact.bytes === undefined ? null : bytes(artifact.bytes)}{" "}
        <Given text={contentType ?? ""} max={100} />
      </span>
    </Line>
  );
}

function getFile(file: Request, name: string): string {
  return `${curlOf(file)} \\\n  -L -o '${name.replaceAll("'", "'\\''")}'`;
}

/** The browser follows a link to object storage only outside of the page. */
async function save(file: Request, name: string): Promise<void> {
  try {
    const init = { headers: apiHeaders(), credentials: "same-origin", redirect: "manual" } as const;
    const reply = await fetch(urlOf(file), init);
    if (reply.type === "opaqueredirect") {
      copyText(getFile(file, name), "The file is in object storage; copied the command to get it");
      return;
    }
    if (!reply.ok) throw new Error(`The file could not be read (${reply.status})`);
    saveBlob(name, await reply.blob());
    tell(`Saved ${name.slice(0, 100)}`);
  } catch (error) {
    tellProblem(error);
  }
}
