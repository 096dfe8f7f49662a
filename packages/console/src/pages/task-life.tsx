/** Where a task is and since when, in one sentence. */
import type { JSX } from "preact";
import { duration } from "../format.ts";
import type { TaskRow } from "../model/tasks.ts";
import { Given, Panel, Time } from "../parts/basics.tsx";
import { useNow } from "../preferences.ts";

export function TaskLife({ task }: { readonly task: TaskRow }): JSX.Element {
  const nowMs = useNow();
  const endMs = task.endedAt === undefined ? nowMs : Date.parse(task.endedAt);
  const took = duration(endMs - Date.parse(task.createdAt));
  return (
    <Panel
      title="Life"
      id="life"
      note={task.endedAt === undefined ? `${took} so far` : `ended after ${took}`}
    >
      <div class="panel-body why">
        <p class="answer">{sentenceOf(task)}</p>
        {task.error === undefined ? null : (
          <p class="fp">
            <Given text={task.error} max={600} />
          </p>
        )}
        <p class="faint">
          Created <Time at={task.createdAt} />, changed <Time at={task.updatedAt} />
        </p>
      </div>
    </Panel>
  );
}

function sentenceOf(task: TaskRow): string {
  const attempts = task.attempts ?? 0;
  switch (task.place) {
    case "ready":
      return "It is ready: the next free worker of its queue gets it in its turn.";
    case "delayed":
      return attempts === 0
        ? "It waits until it is due."
        : `Attempt ${attempts} of ${task.maxAttempts} failed. It waits before the next one.`;
    case "leased":
      return `${task.workerId ?? "A worker"} works on it: attempt ${attempts + 1} of ${task.maxAttempts}.`;
    case "dead":
      return `${
        task.maxAttempts === 1 ? "Its only attempt" : `All ${task.maxAttempts} attempts`
      } failed. It stays a dead letter until someone replays it.`;
    case "done":
      return "It completed.";
    case "failed":
      return task.error === "CANCELLED" ? "Somebody cancelled it." : "It ended with an error.";
  }
}
