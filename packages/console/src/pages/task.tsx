/** One task: where it is and why, what it carries, what came of it, what can be done. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { curlOf, tenant, urlOf } from "../api.ts";
import { watchTask } from "../feed.ts";
import { bytes, duration, plural, shortId } from "../format.ts";
import { useKeys } from "../keys.ts";
import {
  type InspectedTask,
  inspectTask,
  stateOf,
  type TaskRow,
  taskPath,
} from "../model/tasks.ts";
import { Act } from "../parts/act.tsx";
import { Given, Kbd, Nothing, Panel, Pending, State, Time } from "../parts/basics.tsx";
import { copyText } from "../parts/code-box.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { JsonView } from "../parts/json-view.tsx";
import { Menu } from "../parts/menu.tsx";
import { payloads, useNow } from "../preferences.ts";
import { useQuery } from "../query.ts";
import { href } from "../router.ts";
import { hidesPayloads, mayAct, session } from "../session.ts";
import { useStore } from "../store.ts";
import { enqueueLike } from "./enqueue.tsx";
import { Explain } from "./explain.tsx";
import { askCancel, askDelete, askEdit, askMove, replayTask, runNow } from "./task-actions.tsx";
import { TaskCallback } from "./task-callback.tsx";
import { TaskFiles } from "./task-files.tsx";
import { TaskLife } from "./task-life.tsx";
import { TaskReport } from "./task-report.tsx";

export function TaskDetails({ id }: { readonly id: string }): JSX.Element {
  const of = useStore(tenant);
  const { data, error } = useQuery(`task:${of}:${id}`, () => inspectTask(id), {
    everyMs: 2000,
    follows: { task: id },
  });
  useEffect(() => {
    watchTask(id);
    return () => watchTask("");
  }, [id]);
  if (data === undefined || (error !== undefined && error.status === 404)) {
    if (error === undefined || error.status !== 404) return <Pending error={error} />;
    return (
      <Nothing title="There is no such task" icon="tasks" isPage>
        <p>
          It may have been deleted, or belong to another tenant. Ids need at least 4 characters.
        </p>
      </Nothing>
    );
  }
  const { task, result } = data;
  return (
    <>
      <Head task={task} />
      <div class="cols c-side">
        <div class="cols">
          <TaskReport task={task} />
          <TaskLife task={task} />
          <Texts inspected={data} />
          {result?.artifacts === undefined ? null : (
            <TaskFiles id={task.id} artifacts={result.artifacts} />
          )}
          {task.webhook === undefined ? null : <TaskCallback task={task} />}
        </div>
        <div class="cols">
          <Explain task={task} />
          <Facts task={task} />
        </div>
      </div>
    </>
  );
}

interface Action {
  readonly text: string;
  readonly icon: IconName;
  readonly key?: string;
  readonly run: () => void;
  readonly isDanger?: boolean;
  /** It ends the task, and is nobody's first choice. */
  readonly isEnd?: boolean;
  readonly usesPayload?: boolean;
}

/** The first is what most people came for. Without its payload a task can neither be edited nor cloned. */
function actionsOf(task: TaskRow): Action[] {
  const all = allActionsOf(task);
  return hidesPayloads() ? all.filter(({ usesPayload }) => usesPayload !== true) : all;
}

function allActionsOf(task: TaskRow): Action[] {
  const edit = { icon: "edit", key: "e", usesPayload: true, run: () => askEdit(task) } as const;
  const clone: Action = {
    text: "Clone",
    icon: "clone",
    usesPayload: true,
    run: () => enqueueLike(task.command, task.payload ?? "{}"),
  };
  const cancel: Action = { text: "Cancel…", icon: "x", isEnd: true, run: () => askCancel(task) };
  const remove: Action = {
    text: "Delete…",
    icon: "trash",
    isDanger: true,
    run: () => askDelete(task),
  };
  switch (task.place) {
    case "ready":
    case "delayed":
      return [
        { text: "Run now", icon: "bolt", key: "n", run: () => runNow(task) },
        { ...edit, text: "Edit payload" },
        { text: "Move…", icon: "move", key: "m", run: () => askMove(task) },
        clone,
        cancel,
      ];
    case "leased":
      return [cancel, clone];
    case "dead":
      return [
        { text: "Replay", icon: "replay", key: "r", run: () => replayTask(task) },
        { ...edit, text: "Edit and replay" },
        clone,
        remove,
      ];
    case "done":
    case "failed":
      return [{ ...edit, text: "Edit and replay" }, clone, remove];
  }
}

function Head({ task }: { readonly task: TaskRow }): JSX.Element {
  const actions = actionsOf(task);
  const keys = Object.fromEntries(actions.map(({ key = "", run }) => [key, run]));
  const why = (): void => document.getElementById("whyp")?.scrollIntoView({ block: "center" });
  useKeys({ ...(mayAct() ? keys : {}), w: why });
  const create = {
    method: "POST",
    url: "/v1/codeq/tasks",
    body: `{"command":${JSON.stringify(task.command)},"payload":${task.payload ?? "{}"}}`,
  } as const;
  return (
    <header class="task-head">
      <div class="task-title">
        <State
          name={stateOf(task)}
          pill
          {...(task.place === "dead" ? { word: "Dead letter" } : {})}
        />
        <h1>
          <bdi>{task.command}</bdi>
        </h1>
        <button
          class="btn ghost sm mono"
          type="button"
          title="Copy the id"
          onClick={() => copyText(task.id)}
        >
          {task.id} <Icon name="copy" small />
        </button>
        <div class="acts">
          {actions.map((action, at) => (
            <Act
              key={action.text}
              class={`btn ${at === 0 && action.isEnd !== true ? "primary" : ""} ${action.isDanger === true ? "danger" : ""}`}
              onClick={action.run}
            >
              <Icon name={action.icon} />
              {action.text}
              {action.key === undefined ? null : <Kbd>{action.key.toUpperCase()}</Kbd>}
            </Act>
          ))}
          <Menu label="More actions" icon="more" isBare>
            <button
              class="opt"
              type="button"
              onClick={() =>
                copyText(
                  curlOf({
                    method: "GET",
                    url: urlOf({ path: taskPath(task.id) }),
                    body: undefined,
                  }),
                )
              }
            >
              Copy as curl
            </button>
            {hidesPayloads() ? null : (
              <button class="opt" type="button" onClick={() => copyText(curlOf(create))}>
                Copy enqueue call as curl
              </button>
            )}
            <button
              class="opt"
              type="button"
              onClick={() => copyText(`await client.admin.task(${JSON.stringify(task.id)});`)}
            >
              Copy as SDK call
            </button>
          </Menu>
        </div>
      </div>
      <div class="meta">
        <Meta name="Tenant">
          <bdi>{task.tenantId}</bdi>
        </Meta>
        <Meta name="Priority">{task.priority ?? 0}</Meta>
        <Meta name="Attempts">
          {task.attempts ?? 0} of {task.maxAttempts} used
        </Meta>
        <Meta name="Created">
          <Time at={task.createdAt} />
        </Meta>
        {task.tags === undefined ? null : (
          <span class="row wrap">
            <i>Tags</i>
            {task.tags.map((tag) => (
              <a class="tag" key={tag} href={href("/tasks", { q: `tag:${tag}` })}>
                <Given text={tag} max={64} />
              </a>
            ))}
          </span>
        )}
      </div>
    </header>
  );
}

function Meta({
  name,
  children,
}: {
  readonly name: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <span>
      <i>{name}</i>
      {children}
    </span>
  );
}

type Tab = "payload" | "result" | "error";

function Texts({ inspected }: { readonly inspected: InspectedTask }): JSX.Element {
  const { task, result, resultText } = inspected;
  useStore(session);
  const isHiddenByServer = hidesPayloads();
  const isHidden = useStore(payloads) === "hidden" || isHiddenByServer;
  const error = result?.error ?? task.error;
  const texts: Readonly<Record<Tab, string | undefined>> = {
    payload: task.payload,
    result: resultText,
    error,
  };
  const [tab, setTab] = useState<Tab>("payload");
  const text = texts[tab];
  const names = { payload: "Payload", result: "Result", error: "Error" } as const;
  return (
    <section class="panel" aria-label="Payload and result">
      <div class="panel-head">
        <div class="views" role="tablist" aria-label="What to show">
          {(["payload", "result", "error"] as const).map((each) => (
            <button
              key={each}
              type="button"
              role="tab"
              id={`tab-${each}`}
              aria-selected={tab === each}
              aria-controls="task-text"
              onClick={() => setTab(each)}
            >
              {names[each]}{" "}
              {texts[each] === undefined ? null : (
                <span class="n">{bytes(new Blob([texts[each] ?? ""]).size)}</span>
              )}
            </button>
          ))}
        </div>
        <div class="right">
          {isHiddenByServer ? null : (
            <button
              class="btn ghost sm"
              type="button"
              onClick={() => payloads.set(isHidden ? "shown" : "hidden")}
            >
              <Icon name="eyeoff" small />
              {isHidden ? "Show" : "Hide"}
            </button>
          )}
          <button
            class="btn ghost sm"
            type="button"
            disabled={text === undefined}
            onClick={() => copyText(text ?? "")}
          >
            <Icon name="copy" small />
            Copy
          </button>
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
          <JsonView text={text} label={names[tab]} />
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

type Fact = readonly [name: string, value: ComponentChildren];

function Facts({ task }: { readonly task: TaskRow }): JSX.Element {
  const nowMs = useNow();
  const facts = [...factsOf(task), ...lastsOf(task, nowMs)].filter(
    ([, value]) => value !== undefined,
  );
  return (
    <Panel title="Details" id="facts">
      <div class="panel-body">
        <dl class="facts">
          {facts.map(([name, value]) => (
            <div key={name} class="fact">
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </div>
    </Panel>
  );
}

/** Facts without a value are left out. */
function factsOf(task: TaskRow): Fact[] {
  const text = (value: string | undefined): ComponentChildren =>
    value === undefined ? undefined : <Given text={value} max={300} />;
  const link = (id: string | undefined): ComponentChildren =>
    id === undefined ? undefined : <TaskLink id={id} />;
  return [
    [
      "Queue",
      <a key="q" href={href(`/queues/${encodeURIComponent(task.command)}`)}>
        <bdi>{task.command}</bdi>
      </a>,
    ],
    ["Worker", text(task.workerId)],
    ["Replayed", task.replays === undefined ? undefined : plural(task.replays, "time")],
    ["Replay of", link(task.replayOf)],
    ["Replayed as", link(task.replayedAs)],
    ["Idempotency key", text(task.idempotencyKey)],
    ["Trace", traceOf(task)],
  ];
}

function traceOf({ traceParent }: TaskRow): ComponentChildren {
  const id = traceParent?.split("-")[1];
  if (id === undefined) return undefined;
  const template = session.get()?.traceUrl;
  if (template !== undefined) {
    return (
      <a class="mono" href={template.replace("{traceId}", encodeURIComponent(id))} rel="noreferrer">
        {shortId(id)}
      </a>
    );
  }
  return (
    <button class="btn ghost sm mono" type="button" onClick={() => copyText(id)}>
      <Given text={id} max={64} /> <Icon name="copy" small />
    </button>
  );
}

function lastsOf(task: TaskRow, nowMs: number): Fact[] {
  const moment = (at: string | undefined): ComponentChildren =>
    at === undefined ? undefined : <Time at={at} />;
  return [
    ["Lease ends", leaseText(task, nowMs)],
    ["Cancelled, grace until", moment(task.cancelledUntil)],
    ["Due", moment(task.dueAt)],
    ["Ended", moment(task.endedAt)],
    ["Kept until", moment(task.expiresAt)],
    ["Changed", moment(task.updatedAt)],
  ];
}

function leaseText({ leaseUntil, leaseToken }: TaskRow, nowMs: number): string | undefined {
  if (leaseUntil === undefined) return undefined;
  const left = Date.parse(leaseUntil) - nowMs;
  return left > 0 ? `in ${duration(left)}, token ${leaseToken ?? ""}` : "now";
}

function TaskLink({ id }: { readonly id: string }): JSX.Element {
  return (
    <a class="mono" href={href(`/tasks/${id}`)}>
      {shortId(id)}
    </a>
  );
}
