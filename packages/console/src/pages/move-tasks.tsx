/** Moves waiting tasks to another queue: a few by themselves, all that match a filter as a bulk job. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask } from "../api.ts";
import { count, plural } from "../format.ts";
import { jobsPath } from "../model/jobs.ts";
import { forEach, taskPath } from "../model/tasks.ts";
import { ActionDialog, openDialog, type ShownCall } from "../overlays/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { TextField } from "../parts/text-field.tsx";
import { invalidate } from "../query.ts";
import { tell } from "../toasts.tsx";
import { Blast, jobFilter, startJob, useDryRun } from "./bulk-job.tsx";
import type { Selection } from "./task-actions.tsx";

export function askMoveMany({ ids, filter, shown }: Selection): void {
  openDialog(() =>
    filter === undefined ? (
      <MoveChosen ids={ids} />
    ) : (
      <MoveMatching filter={filter} shown={shown} />
    ),
  );
}

const about =
  "The tasks keep their ids, attempts and payloads, and wait at the end of the other queue.";
const label = "To queue";

function MoveChosen({ ids }: { readonly ids: readonly string[] }): JSX.Element {
  const [to, setTo] = useState("");
  const body = { command: to.trim() };
  const callOf = (id: string): ShownCall => ({ method: "PATCH", path: taskPath(id), body });
  return (
    <ActionDialog
      title={`Move ${plural(ids.length, "task")}?`}
      about={`One call for each task. ${about}`}
      button={`Move ${plural(ids.length, "task")}`}
      icon={<Icon name="move" />}
      call={callOf(ids[0] ?? "")}
      isReady={to.trim() !== ""}
      run={async () => {
        const { done, refused, firstProblem } = await forEach(ids, (id) => ask(callOf(id)));
        const rest = refused === 0 ? "" : `, ${count(refused)} refused: ${firstProblem}`;
        tell(`Moved ${plural(done, "task")} to ${to.trim()}${rest}`);
        invalidate();
      }}
    >
      <TextField label={label} isCode value={to} onChange={setTo} />
    </ActionDialog>
  );
}

interface MatchingProps {
  readonly filter: Readonly<Record<string, string>>;
  /** What the filter looks like on the page. */
  readonly shown: string;
}

function MoveMatching({ filter, shown }: MatchingProps): JSX.Element {
  const [to, setTo] = useState("");
  const found = { action: "move", ...jobFilter(filter) };
  // Where to changes nothing about what is found, and a job has to say it.
  const { data: dryRun, matched } = useDryRun({ ...found, moveTo: "any" });
  const call = { method: "POST", path: jobsPath, body: { ...found, moveTo: to.trim() } } as const;
  return (
    <ActionDialog
      title="Move all that match?"
      about={`Filter: ${shown}`}
      button={`Move ${plural(matched, "task")}`}
      icon={<Icon name="move" />}
      call={call}
      isReady={matched > 0 && to.trim() !== ""}
      run={() => startJob(call)}
    >
      <Blast dryRun={dryRun} what="tasks that wait" />
      <TextField label={label} isCode value={to} onChange={setTo} />
      <p class="note">
        <Icon name="move" />
        <span>{about} The job can be paused and aborted.</span>
      </p>
    </ActionDialog>
  );
}
