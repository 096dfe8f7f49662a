/** One task: where it is and why, what it carries, what came of it, what can be done. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { curlOf, tenant } from "../api.ts";
import { watchTask } from "../feed.ts";
import { duration, plural, shortId } from "../format.ts";
import { useKeys } from "../keys.ts";
import { inspectTask, stateOf, type TaskRow, taskPath } from "../model/tasks.ts";
import {
  copyText,
  Given,
  Kbd,
  Meta,
  Nothing,
  Panel,
  Pending,
  queueHref,
  State,
  TaskLink,
  Time,
} from "../parts/basics.tsx";
import { Act, Button, Menu } from "../parts/buttons.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { useNow } from "../preferences.ts";
import { useQuery } from "../query.ts";
import { href } from "../router.ts";
import { hidesPayloads, mayAct, session } from "../session.ts";
import { useStore } from "../store.ts";
import { enqueueLike } from "./enqueue.tsx";
import { Explain } from "./explain.tsx";
import { askCancel, askDelete, askEdit, askMove, replayTask, runNow } from "./task-actions.tsx";
import { TaskLife } from "./task-life.tsx";
import { TaskFiles, TaskReport, TaskTexts } from "./task-output.tsx";
import { TaskWebhook } from "./task-webhook.tsx";

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
          <TaskTexts inspected={data} />
          {result?.artifacts === undefined ? null : (
            <TaskFiles id={task.id} artifacts={result.artifacts} />
          )}
          {task.webhook === undefined ? null : <TaskWebhook task={task} />}
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
  const get = { path: taskPath(task.id) };
  const create = {
    method: "POST",
    path: "/v1/codeq/tasks",
    body: `{"command":${JSON.stringify(task.command)},"payload":${task.payload ?? "{}"}}`,
  } as const;
  return (
    <header class="task-head">
      <div class="task-title row wrap">
        <State
          name={stateOf(task)}
          pill
          {...(task.place === "dead" ? { word: "Dead letter" } : {})}
        />
        <h1>
          <bdi>{task.command}</bdi>
        </h1>
        <Button class="ghost sm mono" title="Copy the id" onClick={() => copyText(task.id)}>
          {task.id} <Icon name="copy" small />
        </Button>
        <div class="right row wrap">
          {actions.map((action, at) => (
            <Act
              key={action.text}
              class={`${at === 0 && action.isEnd !== true ? "primary" : ""} ${action.isDanger === true ? "danger" : ""}`}
              icon={action.icon}
              onClick={action.run}
            >
              {action.text}
              {action.key === undefined ? null : <Kbd>{action.key.toUpperCase()}</Kbd>}
            </Act>
          ))}
          <Menu label="More actions" icon="more" isBare>
            <button class="opt" type="button" onClick={() => copyText(curlOf(get))}>
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
    value && <Given text={value} max={300} />;
  const link = (id: string | undefined): ComponentChildren => id && <TaskLink id={id} />;
  return [
    [
      "Queue",
      <a key="q" href={queueHref(task.command)}>
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
    <Button class="ghost sm mono" onClick={() => copyText(id)}>
      <Given text={id} max={64} /> <Icon name="copy" small />
    </Button>
  );
}

function lastsOf(task: TaskRow, nowMs: number): Fact[] {
  const moment = (at: string | undefined): ComponentChildren => at && <Time at={at} />;
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
