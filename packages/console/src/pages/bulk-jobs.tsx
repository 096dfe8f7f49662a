/** Bulk jobs of the server, and the dialogs that start one for all tasks that a filter finds. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Request } from "../api.ts";
import { count, plural } from "../format.ts";
import { taskPath } from "../model/tasks.ts";
import { ActionDialog, Blast, openDialog } from "../overlays/dialog.tsx";
import { Note } from "../parts/basics.tsx";
import { TextField } from "../parts/fields.tsx";
import { invalidate, useQuery } from "../query.ts";
import { href, navigate } from "../router.ts";
import { sendCall, tell } from "../toasts.tsx";

export const jobsPath = "/v1/codeq/admin/jobs";

/** Several tasks: by their ids, or all that a filter finds. */
export interface Selection {
  readonly ids: readonly string[];
  /** Undefined when ids were chosen one by one. */
  readonly filter?: Filter | undefined;
  /** What the filter looks like on the page. */
  readonly shown: string;
}

type Filter = Readonly<Record<string, string>>;

interface Matching {
  readonly filter: Filter;
  readonly shown: string;
}

interface DryRun {
  readonly matched: number;
  readonly hasMore: boolean;
}

/** The fields of a request that find the tasks that a filter of the page finds. */
export function filterBody({ priority, ...rest }: Filter): object {
  const given = { ...rest, ...(priority === undefined ? {} : { priority: Number(priority) }) };
  return Object.keys(given).length === 0 ? { all: true } : given;
}

/** How many tasks a request would touch. */
export function useDryRun(path: string, body: object): { data: DryRun | undefined; note: string } {
  const request = { method: "POST", path, body: { ...body, dryRun: true } } as const;
  const key = `dry:${path}:${JSON.stringify(body)}`;
  const { data } = useQuery(key, () => ask<DryRun>(request), { everyMs: 0 });
  return { data, note: data === undefined ? "counting" : data.hasMore ? "at least" : "dry run" };
}

async function startJob(call: Request, done = "The bulk job has started"): Promise<void> {
  await sendCall(call, done);
  navigate(href("/jobs"));
}

const words = {
  cancel: {
    verb: "Cancel",
    done: "Cancelled",
    icon: "x",
    what: "tasks that wait or run",
    about: "Waiting tasks end as failed with CANCELLED. Workers are told to stop running ones.",
    each: "Tasks that have ended are left as they are.",
    call: { method: "POST", body: {} },
    path: "/cancel",
  },
  delete: {
    verb: "Delete",
    done: "Deleted",
    icon: "trash",
    what: "tasks that have ended",
    about: "Payloads, results and errors are removed for good.",
    each: "Payloads, results and errors are removed for good.",
    call: { method: "DELETE" },
    path: "",
  },
} as const;
type BulkAction = keyof typeof words;

/** Cancels or deletes all tasks that a filter finds. */
export function askBulkJob(action: BulkAction, matching: Matching): void {
  openDialog(() => <BulkJobDialog action={action} {...matching} />);
}

function BulkJobDialog(props: Matching & { readonly action: BulkAction }): JSX.Element {
  const { action, filter, shown } = props;
  const { verb, icon, what, about } = words[action];
  const body = { action, ...filterBody(filter) };
  const { data, note } = useDryRun(jobsPath, body);
  const matched = data?.matched ?? 0;
  const call = { method: "POST", path: jobsPath, body } as const;
  return (
    <ActionDialog
      title={`${verb} all that match?`}
      about={`Filter: ${shown}`}
      button={`${verb} ${plural(matched, "task")}`}
      icon={icon}
      isFinal
      confirm={filter["command"] ?? String(matched)}
      call={call}
      isReady={matched > 0}
      run={() => startJob(call)}
    >
      <Blast count={count(matched)} what={what} note={note} />
      <Note icon="warn">
        {about} The server does it step by step; the job can be paused and aborted, and tasks that
        come later are left alone.
      </Note>
    </ActionDialog>
  );
}

/** Cancels or deletes tasks that were chosen one by one. */
export function askEach(action: BulkAction, ids: readonly string[]): void {
  const { verb, done, each, call, path } = words[action];
  const callOf = (id: string): Request => ({ ...call, path: taskPath(id, path) });
  openDialog(() => (
    <ActionDialog
      title={`${verb} ${plural(ids.length, "task")}?`}
      about={`One call for each task. ${each}`}
      button={`${verb} ${plural(ids.length, "task")}`}
      isFinal
      confirm={String(ids.length)}
      call={callOf(ids[0] ?? "")}
      run={() => sendEach(ids, callOf, (tasks) => `${done} ${tasks}`)}
    />
  ));
}

async function sendEach(
  ids: readonly string[],
  callOf: (id: string) => Request,
  say: (tasks: string) => string,
): Promise<void> {
  let refused = 0;
  let firstProblem = "";
  for (const id of ids) {
    try {
      await ask(callOf(id));
    } catch (error) {
      refused += 1;
      firstProblem ||= (error as Error).message;
    }
  }
  const rest = refused === 0 ? "" : `, ${count(refused)} refused: ${firstProblem}`;
  tell(say(plural(ids.length - refused, "task")) + rest);
  invalidate();
}

/** Moves waiting tasks to another queue. */
export function askMoveMany({ ids, filter, shown }: Selection): void {
  openDialog(() =>
    filter === undefined ? (
      <MoveChosen ids={ids} />
    ) : (
      <MoveMatching filter={filter} shown={shown} />
    ),
  );
}

const aboutMoves =
  "The tasks keep their ids, attempts and payloads, and wait at the end of the other queue.";

function MoveChosen({ ids }: { readonly ids: readonly string[] }): JSX.Element {
  const [to, setTo] = useState("");
  const command = to.trim();
  const callOf = (id: string): Request => ({
    method: "PATCH",
    path: taskPath(id),
    body: { command },
  });
  return (
    <ActionDialog
      title={`Move ${plural(ids.length, "task")}?`}
      about={`One call for each task. ${aboutMoves}`}
      button={`Move ${plural(ids.length, "task")}`}
      icon="move"
      call={callOf(ids[0] ?? "")}
      isReady={command !== ""}
      run={() => sendEach(ids, callOf, (tasks) => `Moved ${tasks} to ${command}`)}
    >
      <TextField label="To queue" isCode value={to} onChange={setTo} />
    </ActionDialog>
  );
}

function MoveMatching({ filter, shown }: Matching): JSX.Element {
  const [to, setTo] = useState("");
  const found = { action: "move", ...filterBody(filter) };
  // A job has to name a queue, and which one makes no difference to the tasks that are found.
  const { data, note } = useDryRun(jobsPath, { ...found, moveTo: "any" });
  const matched = data?.matched ?? 0;
  const call = { method: "POST", path: jobsPath, body: { ...found, moveTo: to.trim() } } as const;
  return (
    <ActionDialog
      title="Move all that match?"
      about={`Filter: ${shown}`}
      button={`Move ${plural(matched, "task")}`}
      icon="move"
      call={call}
      isReady={matched > 0 && to.trim() !== ""}
      run={() => startJob(call)}
    >
      <Blast count={count(matched)} what="tasks that wait" note={note} />
      <TextField label="To queue" isCode value={to} onChange={setTo} />
      <Note icon="move">{aboutMoves} The job can be paused and aborted.</Note>
    </ActionDialog>
  );
}

/** Replays dead letters in growing steps, and stops when too many fail again. */
export function askCanary(matching: Matching): void {
  openDialog(() => <CanaryDialog {...matching} />);
}

function CanaryDialog({ filter, shown }: Matching): JSX.Element {
  const [first, setFirst] = useState("10");
  const [percent, setPercent] = useState("10");
  const [rate, setRate] = useState("200");
  const base = { action: "replay", ...filter };
  const { data, note } = useDryRun(jobsPath, base);
  const body = {
    ...base,
    canary: true,
    canaryFirst: Number(first),
    canaryFailurePercent: Number(percent),
    ratePerSecond: Number(rate),
  };
  const call = { method: "POST", path: jobsPath, body } as const;
  const isNumber = (text: string): boolean => /^[1-9]\d{0,5}$/.test(text);
  const field = { inputMode: "numeric" } as const;
  return (
    <ActionDialog
      title="Replay as a canary?"
      about={`Filter: ${shown}`}
      button={`Replay the first ${first}`}
      icon="replay"
      call={call}
      isReady={[first, percent, rate].every(isNumber) && data !== undefined}
      run={() => startJob(call, "The canary has started")}
    >
      <Blast count={count(data?.matched ?? 0)} what="dead letters" note={note} />
      <Note icon="shield">
        The next, larger step starts when enough tasks of a step succeeded. Tasks keep their id.
      </Note>
      <TextField {...field} label="Tasks in the first step" value={first} onChange={setFirst} />
      <div class="cols c-6-6">
        <TextField
          {...field}
          label="Stop above this share of failures, in %"
          value={percent}
          onChange={setPercent}
        />
        <TextField {...field} label="Tasks per second at most" value={rate} onChange={setRate} />
      </div>
    </ActionDialog>
  );
}
