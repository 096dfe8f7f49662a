/** Actions on a task, and on failures. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, callOf } from "../../api.ts";
import { count, shortId } from "../../format.ts";
import { jsonProblem } from "../../json-lines.ts";
import { type TaskRow, withPayload } from "../../model/tasks.ts";
import { ActionDialog, openDialog } from "../../overlays/dialog.tsx";
import { PayloadField, TextField } from "../../parts/fields.tsx";
import { invalidate } from "../../query.ts";
import { href, navigate } from "../../router.ts";
import { sendCall, sendNow, tell } from "../../toasts.tsx";
import { askBulkJob, askEach, type Selection } from "../bulk-jobs.tsx";

export function replayTask({ id }: TaskRow): void {
  const call = callOf("POST /admin/tasks/:id/replay", { params: { id } });
  sendNow(call, `Replayed ${shortId(id)}`);
}

export function runNow({ id }: TaskRow): void {
  const body = { delaySeconds: 0 };
  const call = callOf("PATCH /admin/tasks/:id", { params: { id }, body });
  sendNow(call, `${shortId(id)} is ready to run`);
}

export function redeliver(id: string): void {
  sendNow(
    callOf("POST /admin/tasks/:id/redeliver", { params: { id } }),
    "The webhook is under way",
  );
}

export function askCancel(task: TaskRow): void {
  const call = callOf("POST /admin/tasks/:id/cancel", { params: { id: task.id } });
  openDialog(
    <ActionDialog
      title="Cancel this task?"
      about={
        task.place === "leased"
          ? "The worker is notified to stop. If it does not stop, it loses the task after 30 seconds."
          : "It ends as cancelled and is not run."
      }
      button="Cancel task"
      icon="x"
      call={call}
      run={() => sendCall(call, `Cancelled ${shortId(task.id)}`)}
    />,
  );
}

export function askDelete(task: TaskRow): void {
  const call = callOf("DELETE /admin/tasks/:id", { params: { id: task.id } });
  openDialog(
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
    />,
  );
}

export function MoveDialog({ task }: { readonly task: TaskRow }): JSX.Element {
  const [command, setCommand] = useState("");
  const [priority, setPriority] = useState(String(task.priority ?? 0));
  const body = {
    ...(command.trim() === "" ? {} : { command: command.trim() }),
    priority: Number(priority),
  };
  const call = callOf("PATCH /admin/tasks/:id", { params: { id: task.id }, body });
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
export function EditDialog({ task }: { readonly task: TaskRow }): JSX.Element {
  const isWaiting = task.place === "ready" || task.place === "delayed";
  const [payload, setPayload] = useState(task.payload ?? "");
  const key = isWaiting ? "PATCH /admin/tasks/:id" : "POST /admin/tasks/:id/replay";
  const call = {
    ...callOf(key, { params: { id: task.id }, body: {} }),
    body: withPayload({}, payload),
  };
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

/** Selected tasks one by one; all that match a filter as a bulk job. */
export function askFailures(verb: "replay" | "delete", selection: Selection): void {
  const { ids, filter, shown } = selection;
  if (filter === undefined) askEach(verb, ids);
  else askBulkJob(verb, { filter, shown });
}
