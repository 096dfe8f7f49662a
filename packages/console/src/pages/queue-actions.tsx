/** What can be done to a queue. Each dialog says first what it will touch. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../api.ts";
import { count, plural } from "../format.ts";
import type { QueueRow } from "../model/queues.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { TextField } from "../parts/text-field.tsx";
import { invalidate } from "../query.ts";
import { sendCall, sendNow } from "../send-call.ts";
import { tell } from "../toasts.tsx";

function pathOf(name: string, verb: string): string {
  return `/v1/codeq/admin/queues/${encodeURIComponent(name)}/${verb}`;
}

export function resumeQueue(name: string): void {
  sendNow({ method: "POST", path: pathOf(name, "resume") }, `Resumed ${name}`, "queues");
}

export function askPauseQueue(queue: QueueRow): void {
  openDialog(() => <PauseDialog queue={queue} />);
}

function PauseDialog({ queue }: { readonly queue: QueueRow }): JSX.Element {
  const [reason, setReason] = useState("");
  const call = { method: "POST", path: pathOf(queue.name, "pause"), body: { reason } } as const;
  return (
    <ActionDialog
      title={`Pause ${queue.name}?`}
      about="Workers get no more tasks from this queue until someone resumes it."
      button="Pause queue"
      icon={<Icon name="pause" />}
      call={call}
      run={() => sendCall(call, `Paused ${queue.name}`, "queues")}
    >
      <ul class="checks">
        <li>
          <Icon name="ready" />
          <span>
            {plural(queue.waiting, "waiting task stays", "waiting tasks stay")} where they are.
            Producers can go on enqueueing.
          </span>
        </li>
        <li>
          <Icon name="leased" />
          <span>
            {plural(queue.leased, "leased task finishes", "leased tasks finish")} as usual.
          </span>
        </li>
      </ul>
      <TextField
        label="Reason, shown to everyone"
        maxLength={200}
        value={reason}
        onChange={setReason}
      />
    </ActionDialog>
  );
}

/** Dead letters of a queue. */
export function askDeleteDead(queue: QueueRow): void {
  openDialog(() => <DeleteDeadDialog queue={queue} />);
}

function DeleteDeadDialog({ queue }: { readonly queue: QueueRow }): JSX.Element {
  const call = {
    method: "POST",
    path: "/v1/codeq/admin/dead-letters/delete",
    body: { command: queue.name },
  } as const;
  return (
    <ActionDialog
      title={`Delete ${plural(queue.dead, "dead letter")} of ${queue.name}?`}
      button={`Delete ${plural(queue.dead, "task")}`}
      isFinal
      confirm={queue.name}
      call={call}
      run={async () => {
        let deleted = 0;
        for (let hasMore = true; hasMore; ) {
          const done = await ask<{ deleted: number; hasMore: boolean }>(call);
          deleted += done.deleted;
          hasMore = done.hasMore && done.deleted > 0;
        }
        tell(`Deleted ${plural(deleted, "dead letter")} of ${queue.name}`);
        invalidate();
      }}
    >
      <div class="blast">
        <div class="big">
          <b>{count(queue.dead)}</b>
          <span>dead letters of one queue</span>
        </div>
      </div>
      <ul class="checks">
        <li>
          <Icon name="dead" />
          <span>
            Payloads and errors are removed <b>for good</b>.
          </span>
        </li>
      </ul>
    </ActionDialog>
  );
}
