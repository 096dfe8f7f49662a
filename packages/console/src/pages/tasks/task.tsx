/** One task: its place and why, its payload, attempts and result, and actions. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { curlOf, tenant } from "../../api.ts";
import { watchTask } from "../../feed.ts";
import { duration, plural, shortId } from "../../format.ts";
import { useKeys } from "../../keys.ts";
import {
  attemptNumber,
  createCall,
  inspectCall,
  inspectTask,
  type TaskRow,
} from "../../model/tasks.ts";
import { openDialog } from "../../overlays/dialog.tsx";
import {
  copyText,
  type Fact,
  Facts,
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
  WorkerName,
} from "../../parts/basics.tsx";
import { Act, Button, Menu } from "../../parts/buttons.tsx";
import { Icon, type IconName } from "../../parts/icon.tsx";
import { useNow } from "../../preferences.ts";
import { useQuery } from "../../query.ts";
import { href } from "../../router.ts";
import { hidesPayloads, mayAct, session } from "../../session.ts";
import { useStore } from "../../store.ts";
import { batchHref } from "../batches.tsx";
import { enqueueLike } from "./enqueue.tsx";
import { Explain } from "./explain.tsx";
import {
  askCancel,
  askDelete,
  EditDialog,
  MoveDialog,
  replayTask,
  runNow,
} from "./task-actions.tsx";
import { TaskLife } from "./task-life.tsx";
import { TaskFiles, TaskReport, TaskTexts, TaskWebhook } from "./task-output.tsx";

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
          <Details task={task} />
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
  /** Ends the task; never shown as the primary button. */
  readonly isEnd?: boolean;
  readonly usesPayload?: boolean;
}

/** The primary action first. A task whose payload is hidden can neither be edited nor cloned. */
function actionsOf(task: TaskRow): Action[] {
  const all = allActionsOf(task);
  return hidesPayloads() ? all.filter(({ usesPayload }) => usesPayload !== true) : all;
}

function allActionsOf(task: TaskRow): Action[] {
  const edit = {
    icon: "edit",
    key: "e",
    usesPayload: true,
    run: () => openDialog(<EditDialog task={task} />),
  } as const;
  const clone: Action = {
    text: "Clone",
    icon: "clone",
    usesPayload: true,
    run: () => enqueueLike(task.command, task.payload ?? "{}"),
  };
  const cancel: Action = { text: "Cancel…", icon: "x", isEnd: true, run: () => askCancel(task) };
  const now: Action = { text: "Run now", icon: "bolt", key: "n", run: () => runNow(task) };
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
        ...(task.place === "delayed" ? [now] : []),
        { ...edit, text: "Edit payload" },
        {
          text: "Move…",
          icon: "move",
          key: "m",
          run: () => openDialog(<MoveDialog task={task} />),
        },
        clone,
        cancel,
      ];
    case "held":
    case "leased":
      return [cancel, clone];
    case "dead":
    case "failed":
      return [
        { text: "Replay", icon: "replay", key: "r", run: () => replayTask(task) },
        { ...edit, text: "Edit and replay" },
        clone,
        remove,
      ];
    case "done":
    case "cancelled":
      return [{ ...edit, text: "Edit and replay" }, clone, remove];
  }
}

function Head({ task }: { readonly task: TaskRow }): JSX.Element {
  const actions = actionsOf(task);
  const keys = Object.fromEntries(actions.map(({ key = "", run }) => [key, run]));
  const why = (): void => document.getElementById("whyp")?.scrollIntoView({ block: "center" });
  useKeys({ ...(mayAct() ? keys : {}), w: why });
  const get = inspectCall(task.id);
  const create = createCall(task.command, task.payload ?? "{}");
  return (
    <header class="task-head">
      <div class="task-title row wrap">
        <State name={task.place} pill {...(task.place === "dead" ? { word: "Dead letter" } : {})} />
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
          {attemptNumber(task)} of {task.maxAttempts}
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

function Details({ task }: { readonly task: TaskRow }): JSX.Element {
  const nowMs = useNow();
  const facts = [...factsOf(task), ...lastsOf(task, nowMs)].filter(
    ([, value]) => value !== undefined,
  );
  return (
    <Panel title="Details" id="facts">
      <div class="panel-body">
        <Facts of={facts} />
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
    ["Worker", task.workerId && <WorkerName key="w" id={task.workerId} />],
    ["Batch", task.batchId && <BatchLink key="b" task={task} id={task.batchId} />],
    ["Replayed", task.replays === undefined ? undefined : plural(task.replays, "time")],
    ["Replay of", link(task.replayOf)],
    ["Replayed as", link(task.replayedAs)],
    ["Idempotency key", isOwnKey(task) ? undefined : text(task.idempotencyKey)],
    ["Lane", text(task.lane)],
    ["Cost", task.cost === undefined ? undefined : plural(task.cost, "unit")],
    ["Unique key", text(uniqueOf(task))],
    ["Trace", traceOf(task)],
  ];
}

function BatchLink({ task, id }: { readonly task: TaskRow; readonly id: string }): JSX.Element {
  return (
    <>
      <a class="qname" href={batchHref(id)} title={id}>
        <bdi>{id}</bdi>
      </a>
      {task.isBatchCallback === true ? ", its callback" : null}
    </>
  );
}

function uniqueOf({ uniqueKey, replaced, waitsForKey }: TaskRow): string | undefined {
  if (uniqueKey === undefined) return undefined;
  const times = replaced === undefined ? "" : `, replaced ${replaced} times`;
  return `${uniqueKey}${times}${waitsForKey ? ", waits for the task with this key" : ""}`;
}

/** The client library makes a key for each call, so that it can repeat the call; such a key is not the user's. */
function isOwnKey({ idempotencyKey = "" }: TaskRow): boolean {
  return idempotencyKey.startsWith("auto:");
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
