/** Payload, result and error of a task, the report of its worker, its files and its webhook. */
import type { ReplyOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { callOf, curlOf, openFile, type Request } from "../../api.ts";
import { bytes, duration, plural, visible } from "../../format.ts";
import { jsonLines, linesMax } from "../../json-lines.ts";
import { saveBlob } from "../../model/download.ts";
import { encryptionKeyOf, type InspectedTask, type TaskRow } from "../../model/tasks.ts";
import {
  copyText,
  Given,
  Line,
  List,
  Nothing,
  Panel,
  Pending,
  State,
  type StateName,
  Time,
} from "../../parts/basics.tsx";
import { Act, Button } from "../../parts/buttons.tsx";
import { payloads } from "../../preferences.ts";
import { useAnswer } from "../../query.ts";
import { hidesPayloads, session } from "../../session.ts";
import { useStore } from "../../store.ts";
import { tell, tellProblem } from "../../toasts.tsx";
import { redeliver } from "./task-actions.tsx";

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
    error: errorText(result?.error ?? task.error, task),
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
          <JsonText id={task.id} text={text} label={tabs[tab]} />
        )}
      </div>
    </section>
  );
}

function JsonText({ id, text, label }: { id: string; text: string; label: string }): JSX.Element {
  const key = encryptionKeyOf(text);
  if (key === undefined) return <JsonView text={text} label={label} />;
  return (
    <Nothing icon="keys" title={`Encrypted with the key ${visible(key)}`}>
      <p>
        The server cannot read it. This command shows it:{" "}
        <code>codeq decode {id} --keys keys.json</code>
      </p>
    </Nothing>
  );
}

/** The error, and where in the worker it happened. */
function errorText(error: string | undefined, { attemptHistory = [] }: TaskRow) {
  const stack = attemptHistory.findLast((each) => each.outcome !== "running")?.stack;
  return error === undefined || stack === undefined ? error : `${error}\n${stack}`;
}

function missing(tab: Tab, { place, payloadOmitted }: TaskRow): string {
  if (tab === "payload")
    return payloadOmitted === true ? "The payload is too long to show" : "No payload";
  if (tab === "error") return "No attempt has failed";
  return place === "done" || place === "failed" || place === "cancelled" || place === "dead"
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

/** JSON as it was sent: numbers keep all digits. */
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

/** Stable while lines are added at the end and dropped at the start, so that a text selection survives. */
function lineKey(logs: NonNullable<TaskRow["logs"]>, index: number): string {
  const { at } = logs[index] ?? {};
  return `${at} ${logs.slice(index).filter((line) => line.at === at).length}`;
}

/** Follows new lines while the log is scrolled to its end. */
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
        <div key={lineKey(logs, index)}>
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

/** The browser holds a file in memory before it saves the file. */
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
  const file = callOf("GET /admin/tasks/:id/artifacts/:name", { params: { id, name } });
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

/** A page may not read from object storage; for a redirect there the user gets a curl command. */
async function save(file: Request, name: string): Promise<void> {
  try {
    const reply = await openFile(file);
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

type Webhook = ReplyOf<"GET /admin/tasks/:id/deliveries">;

const webhookStates: Readonly<
  Record<Webhook["state"], { readonly name: StateName; readonly word: string }>
> = {
  none: { name: "cancelled", word: "No webhook" },
  pending: { name: "delayed", word: "When the task has ended" },
  waiting: { name: "delayed", word: "On its way" },
  delivered: { name: "done", word: "Delivered" },
  failed: { name: "failed", word: "Given up" },
};

export function TaskWebhook({ task }: { readonly task: TaskRow }): JSX.Element {
  const request = callOf("GET /admin/tasks/:id/deliveries", { params: { id: task.id } });
  const { data, error } = useAnswer("deliveries", request, { everyMs: 2000 });
  const send = (
    <Act class="sm" icon="replay" onClick={() => redeliver(task.id)}>
      Send again
    </Act>
  );
  return (
    <Panel
      title="Webhook"
      id="webhook"
      note={data && plural(data.total, "try", "tries")}
      actions={data === undefined || data.state === "pending" ? undefined : send}
    >
      {data === undefined ? <Pending error={error} /> : <Tries webhook={data} />}
    </Panel>
  );
}

function Tries({ webhook }: { readonly webhook: Webhook }): JSX.Element {
  const { url = "", state, nextTryAt, tries } = webhook;
  return (
    <>
      <div class="panel-body why">
        <p class="row wrap">
          <State {...webhookStates[state]} />
          <code class="trunc">
            <Given text={url} max={300} />
          </code>
          {nextTryAt === undefined ? null : (
            <span class="faint">
              next try <Time at={nextTryAt} />
            </span>
          )}
        </p>
        {webhook.error === undefined ? null : (
          <p class="fp">
            <Given text={webhook.error} max={300} />
          </p>
        )}
      </div>
      <List rows={[...tries].reverse()}>
        {(each) => (
          <Line
            key={each.at}
            {...(isTaken(each) ? good : bad)}
            action={
              <span class="faint">
                <Time at={each.at} />
              </span>
            }
            sub={each.error && <Given text={each.error} max={300} />}
          >
            {each.status === undefined ? "No answer" : `Answered ${each.status}`} after{" "}
            {duration(each.durationMs)}
          </Line>
        )}
      </List>
    </>
  );
}

const good = { icon: "done", tone: "good" } as const;
const bad = { icon: "failed", tone: "bad" } as const;

function isTaken({ status = 0 }: Webhook["tries"][number]): boolean {
  return status >= 200 && status < 300;
}
