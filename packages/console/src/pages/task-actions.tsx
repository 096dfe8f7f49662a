/** What can be done to a task, and to dead letters. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Request } from "../api.ts";
import { count, plural, shortId } from "../format.ts";
import { jsonProblem } from "../json-lines.ts";
import { type TaskRow, taskPath } from "../model/tasks.ts";
import { ActionDialog, Blast, Effects, openDialog } from "../overlays/dialog.tsx";
import { PayloadField, TextField } from "../parts/fields.tsx";
import { invalidate } from "../query.ts";
import { href, navigate } from "../router.ts";
import { sendCall, sendNow, tell } from "../toasts.tsx";
import { filterBody, type Selection, useDryRun } from "./bulk-jobs.tsx";

export function replayTask({ id }: TaskRow): void {
  sendNow({ method: "POST", path: taskPath(id, "/replay") }, `Replayed ${shortId(id)}`);
}

/** Due now, whatever it waited for. */
export function runNow({ id }: TaskRow): void {
  const call = { method: "PATCH", path: taskPath(id), body: { delaySeconds: 0 } } as const;
  sendNow(call, `${shortId(id)} is ready to run`);
}

/** Sends the webhook of a task again. */
export function redeliver(id: string): void {
  sendNow({ method: "POST", path: taskPath(id, "/redeliver") }, "The webhook is under way");
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
      icon="x"
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
      icon="move"
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
  const body = `{"payload":${payload}}`;
  const call: Request<{ task: { id: string } }> = isWaiting
    ? { method: "PATCH", path: taskPath(task.id), body }
    : { method: "POST", path: taskPath(task.id, "/replay"), body };
  return (
    <ActionDialog
      title={isWaiting ? "Edit payload" : "Edit and replay"}
      about={
        isWaiting
          ? "The worker that claims the task next gets the new payload."
          : `Creates a new task in ${task.command} that is linked to ${shortId(task.id)}, which stays as it is.`
      }
      button={isWaiting ? "Save payload" : "Replay as a new task"}
      icon={isWaiting ? "check" : "replay"}
      call={call}
      isReady={jsonProblem(payload) === undefined}
      run={async () => {
        const { id } = (await ask(call)).task;
        if (isWaiting) tell(`Changed ${shortId(task.id)}`);
        else tell("Enqueued the edited task", { href: href(`/tasks/${id}`), text: "Open it" });
        invalidate();
      }}
    >
      <PayloadField
        rows={12}
        value={payload}
        good={`Valid JSON, ${count(payload.length)} characters. Numbers are sent exactly as written.`}
        onChange={setPayload}
      />
    </ActionDialog>
  );
}

const deadVerbs = {
  replay: {
    word: "Replay",
    done: "Replayed",
    icon: "replay",
    effects: [["replay", "Tasks keep their id, and get all their attempts again."]],
  },
  delete: {
    word: "Delete",
    done: "Deleted",
    icon: "trash",
    effects: [["dead", "Payloads and errors are removed for good."]],
  },
} as const;
type DeadVerb = keyof typeof deadVerbs;

export function askDeadLetters(verb: DeadVerb, selection: Selection): void {
  openDialog(() => <DeadLettersDialog verb={verb} selection={selection} />);
}

function bodyOf({ ids, filter }: Selection): object {
  if (filter === undefined) return { ids };
  const { place: _place, ...rest } = filter;
  return filterBody(rest);
}

interface DeadDone {
  readonly replayed?: number;
  readonly deleted?: number;
  readonly hasMore: boolean;
}

function DeadLettersDialog(props: { verb: DeadVerb; selection: Selection }): JSX.Element {
  const { verb, selection } = props;
  const { word, done, icon, effects } = deadVerbs[verb];
  const isFinal = verb === "delete";
  const call = {
    method: "POST",
    path: `/v1/codeq/admin/dead-letters/${verb}`,
    body: bodyOf(selection),
  } as const;
  const { data, note } = useDryRun(call.path, call.body);
  const matched = data?.matched ?? selection.ids.length;
  const queue = selection.filter?.["command"];
  return (
    <ActionDialog
      title={`${word} ${plural(matched, "dead letter")}?`}
      about={selection.shown === "" ? undefined : `Filter: ${selection.shown}`}
      button={`${word} ${plural(matched, "task")}`}
      icon={icon}
      isFinal={isFinal}
      confirm={isFinal ? (queue ?? String(matched)) : undefined}
      call={call}
      isReady={data !== undefined && matched > 0}
      run={async () => {
        let touched = 0;
        for (let hasMore = true; hasMore; ) {
          const { replayed = 0, deleted = 0, ...rest } = await ask<DeadDone>(call);
          touched += replayed + deleted;
          hasMore = rest.hasMore && replayed + deleted > 0;
        }
        tell(`${done} ${plural(touched, "dead letter")}`);
        invalidate();
      }}
    >
      <Blast count={count(matched)} what="dead letters" note={note} />
      <Effects of={effects} />
    </ActionDialog>
  );
}
