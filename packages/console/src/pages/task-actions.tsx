/** What can be done to tasks: one, a selection, or all that match a filter. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../api.ts";
import { count, plural, shortId } from "../format.ts";
import { jsonProblem } from "../json-lines.ts";
import { forEach, type TaskRow, taskPath } from "../model/tasks.ts";
import { ActionDialog, openDialog, type ShownCall } from "../overlays/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { TextField } from "../parts/text-field.tsx";
import { invalidate, useQuery } from "../query.ts";
import { href, navigate } from "../router.ts";
import { sendCall, sendNow } from "../send-call.ts";
import { tell } from "../toasts.tsx";

export function replayTask({ id }: TaskRow): void {
  sendNow({ method: "POST", path: taskPath(id, "/replay") }, `Replayed ${shortId(id)}`);
}

/** Due now, whatever it waited for. */
export function runNow({ id }: TaskRow): void {
  const call = { method: "PATCH", path: taskPath(id), body: { delaySeconds: 0 } } as const;
  sendNow(call, `${shortId(id)} is ready to run`);
}

/** Sends the callback of a task again. */
export function redeliver(id: string): void {
  sendNow({ method: "POST", path: taskPath(id, "/redeliver") }, "The callback is under way");
}

export function askCancel(task: TaskRow): void {
  const call = { method: "POST", path: taskPath(task.id, "/cancel"), body: {} } as const;
  openDialog(() => (
    <ActionDialog
      title="Cancel this task?"
      about={
        task.place === "leased"
          ? "Its worker is told to stop. When it does not, it loses the task after a grace of 30 seconds."
          : "It ends as failed with CANCELLED and is not run."
      }
      button="Cancel task"
      icon={<Icon name="x" />}
      call={call}
      run={() => sendCall(call, `Cancelled ${shortId(task.id)}`)}
    />
  ));
}

export function askDelete(task: TaskRow): void {
  const call = { method: "DELETE", path: taskPath(task.id) } as const;
  openDialog(() => (
    <ActionDialog
      title="Delete this task?"
      about="Its payload, result and error are deleted permanently."
      button="Delete task"
      isFinal
      confirm={task.command}
      call={call}
      run={async () => {
        await sendCall(call, `Deleted ${shortId(task.id)}`, "queues");
        navigate(href("/tasks"));
      }}
    />
  ));
}

export function askMove(task: TaskRow): void {
  openDialog(() => <MoveDialog task={task} />);
}

function MoveDialog({ task }: { readonly task: TaskRow }): JSX.Element {
  const [command, setCommand] = useState("");
  const [priority, setPriority] = useState(String(task.priority ?? 0));
  const body = {
    ...(command.trim() === "" ? {} : { command: command.trim() }),
    priority: Number(priority),
  };
  const call = { method: "PATCH", path: taskPath(task.id), body } as const;
  return (
    <ActionDialog
      title="Move or change priority"
      about={`The task waits in ${task.command} with priority ${task.priority ?? 0}.`}
      button="Move task"
      icon={<Icon name="move" />}
      call={call}
      isReady={/^[0-9]$/.test(priority)}
      run={() => sendCall(call, `Changed ${shortId(task.id)}`)}
    >
      <TextField label="To queue; empty to stay" isCode value={command} onChange={setCommand} />
      <TextField
        label="Priority, 0 to 9"
        inputMode="numeric"
        value={priority}
        onChange={setPriority}
      />
    </ActionDialog>
  );
}

/** A waiting task is edited in place; one that has ended is enqueued again with another payload. */
export function askEdit(task: TaskRow): void {
  openDialog(() => <EditDialog task={task} />);
}

function EditDialog({ task }: { readonly task: TaskRow }): JSX.Element {
  const isWaiting = task.place === "ready" || task.place === "delayed";
  const [payload, setPayload] = useState(task.payload ?? "");
  const problem = jsonProblem(payload);
  const call = isWaiting
    ? ({ method: "PATCH", path: taskPath(task.id), body: `{"payload":${payload}}` } as const)
    : ({
        method: "POST",
        path: taskPath(task.id, "/replay"),
        body: `{"payload":${payload}}`,
      } as const);
  return (
    <ActionDialog
      title={isWaiting ? "Edit payload" : "Edit and replay"}
      about={
        isWaiting
          ? "The worker that claims the task next gets the new payload."
          : `Creates a new task in ${task.command} that is linked to ${shortId(task.id)}, which stays as it is.`
      }
      button={isWaiting ? "Save payload" : "Replay as a new task"}
      icon={<Icon name={isWaiting ? "check" : "replay"} />}
      call={call}
      isReady={problem === undefined}
      run={async () => {
        const { id } = (await ask<{ task: { id: string } }>(call)).task;
        if (isWaiting) tell(`Changed ${shortId(task.id)}`);
        else tell("Enqueued the edited task", { href: href(`/tasks/${id}`), text: "Open it" });
        invalidate();
      }}
    >
      <label class="field">
        <span>Payload</span>
        <textarea
          class="input code-edit"
          rows={12}
          spellcheck={false}
          value={payload}
          aria-invalid={problem !== undefined}
          onInput={(event) => setPayload(event.currentTarget.value)}
        />
      </label>
      <p class={problem === undefined ? "good" : "bad"} role="status">
        {problem ??
          `Valid JSON, ${count(payload.length)} characters. Numbers are sent exactly as written.`}
      </p>
    </ActionDialog>
  );
}

/** Several tasks: by their ids, or all dead letters that a filter finds. */
export interface Selection {
  readonly ids: readonly string[];
  /** Undefined when ids were chosen one by one. */
  readonly filter?: Readonly<Record<string, string>> | undefined;
  /** What the filter looks like on the page. */
  readonly shown: string;
}

type DeadVerb = "replay" | "delete";

export function askDeadLetters(verb: DeadVerb, selection: Selection): void {
  openDialog(() => <DeadLettersDialog verb={verb} selection={selection} />);
}

function bodyOf({ ids, filter }: Selection): Readonly<Record<string, unknown>> {
  if (filter === undefined) return { ids };
  const { place: _place, priority, ...rest } = filter;
  const given = { ...rest, ...(priority === undefined ? {} : { priority: Number(priority) }) };
  return Object.keys(given).length === 0 ? { all: true } : given;
}

interface DeadDone {
  readonly matched: number;
  readonly replayed?: number;
  readonly deleted?: number;
  readonly hasMore: boolean;
}

function DeadLettersDialog({
  verb,
  selection,
}: {
  verb: DeadVerb;
  selection: Selection;
}): JSX.Element {
  const path = `/v1/codeq/admin/dead-letters/${verb}`;
  const body = bodyOf(selection);
  const dryRun = useQuery(
    `dry:${verb}:${JSON.stringify(body)}`,
    () => ask<DeadDone>({ method: "POST", path, body: { ...body, dryRun: true } }),
    { everyMs: 0 },
  );
  const matched = dryRun.data?.matched ?? selection.ids.length;
  const about =
    dryRun.data === undefined ? "counting" : dryRun.data.hasMore ? "at least" : "dry run";
  const isFinal = verb === "delete";
  const call = { method: "POST", path, body } as const;
  const word = isFinal ? "Delete" : "Replay";
  const queue = selection.filter?.["command"];
  return (
    <ActionDialog
      title={`${word} ${plural(matched, "dead letter")}?`}
      about={selection.shown === "" ? undefined : `Filter: ${selection.shown}`}
      button={`${word} ${plural(matched, "task")}`}
      icon={<Icon name={isFinal ? "trash" : "replay"} />}
      isFinal={isFinal}
      confirm={isFinal ? (queue ?? String(matched)) : undefined}
      call={call}
      isReady={dryRun.data !== undefined && matched > 0}
      run={async () => {
        let touched = 0;
        for (let hasMore = true; hasMore; ) {
          const done = await ask<DeadDone>(call);
          const now = (done.replayed ?? 0) + (done.deleted ?? 0);
          touched += now;
          hasMore = done.hasMore && now > 0;
        }
        tell(`${isFinal ? "Deleted" : "Replayed"} ${plural(touched, "dead letter")}`);
        invalidate();
      }}
    >
      <div class="blast">
        <div class="big">
          <b>{count(matched)}</b>
          <span>dead letters</span>
          <span class="faint">{about}</span>
        </div>
      </div>
      <ul class="checks">
        {isFinal ? (
          <li>
            <Icon name="dead" />
            <span>
              Payloads and errors are removed <b>for good</b>.
            </span>
          </li>
        ) : (
          <li>
            <Icon name="replay" />
            <span>Tasks keep their id, and get all their attempts again.</span>
          </li>
        )}
      </ul>
    </ActionDialog>
  );
}

const each = {
  cancel: { verb: "Cancel", done: "Cancelled", method: "POST", path: "/cancel", body: {} },
  delete: { verb: "Delete", done: "Deleted", method: "DELETE", path: "", body: undefined },
} as const;

/** Tasks that were chosen one by one. */
export function askEach(action: keyof typeof each, ids: readonly string[]): void {
  const { verb, done: word, method, path, body } = each[action];
  const callOf = (id: string): ShownCall => ({ method, path: taskPath(id, path), body });
  openDialog(() => (
    <ActionDialog
      title={`${verb} ${plural(ids.length, "task")}?`}
      about={
        action === "cancel"
          ? "One call for each task. Tasks that have ended are left as they are."
          : "One call for each task. Payloads, results and errors are removed for good."
      }
      button={`${verb} ${plural(ids.length, "task")}`}
      isFinal
      confirm={String(ids.length)}
      call={callOf(ids[0] ?? "")}
      run={async () => {
        const { done, refused, firstProblem } = await forEach(ids, (id) => ask(callOf(id)));
        tell(
          `${word} ${plural(done, "task")}${refused === 0 ? "" : `, ${count(refused)} refused: ${firstProblem}`}`,
        );
        invalidate();
      }}
    />
  ));
}
