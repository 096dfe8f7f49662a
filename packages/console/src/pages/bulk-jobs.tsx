/** Dialogs that change several tasks: selected ones, or by a bulk job all tasks that match a filter. */
import type { Given as GivenTo } from "@codeq/protocol";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, callOf, type Request } from "../api.ts";
import { count, duration, plural } from "../format.ts";
import { ActionDialog, Blast, openDialog } from "../overlays/dialog.tsx";
import { Given, Note } from "../parts/basics.tsx";
import { TextField } from "../parts/fields.tsx";
import { invalidate } from "../query.ts";
import { href, navigate } from "../router.ts";
import type { TaskQuery } from "../task-filter.ts";
import { sendCall, tell, tellProblem } from "../toasts.tsx";

export interface Selection {
  readonly ids: readonly string[];
  /** Undefined when tasks were selected one by one. */
  readonly filter?: TaskQuery | undefined;
  /** The filter as text. */
  readonly shown: string;
}

interface Matching {
  readonly filter: TaskQuery;
  readonly shown: string;
}

type JobBody = Exclude<GivenTo<"POST /admin/jobs">["body"], string>;

function jobCall(body: JobBody) {
  return callOf("POST /admin/jobs", { body });
}

/** The filter of the page as fields of a request body. */
function filterBody({ priority, ...rest }: TaskQuery) {
  const given = { ...rest, ...(priority === undefined ? {} : { priority: Number(priority) }) };
  return Object.keys(given).length === 0 ? { all: true } : given;
}

interface Counted {
  readonly matched: number;
  readonly isExact: boolean;
}

/** Counts all tasks of a job, in as many answers as that takes; a button that changes them waits for the end. */
function useJobCount(body: JobBody): Counted | undefined {
  const [counted, setCounted] = useState<Counted>();
  const key = JSON.stringify(body);
  useEffect(() => {
    let isWanted = true;
    const count = async (): Promise<void> => {
      let matched = 0;
      let after: string | undefined;
      do {
        const answer = await ask(jobCall({ ...body, dryRun: true, after }));
        if (!isWanted || "id" in answer) return;
        matched += answer.matched;
        after = answer.next;
        setCounted({ matched, isExact: after === undefined });
      } while (after !== undefined);
    };
    count().catch(tellProblem);
    return () => {
      isWanted = false;
    };
  }, [key]);
  return counted;
}

function Count({ counted, what }: { counted: Counted | undefined; what: string }): JSX.Element {
  const note = counted?.isExact === true ? "exact" : "still counting";
  return (
    <Blast count={counted === undefined ? "…" : count(counted.matched)} what={what} note={note} />
  );
}

/** The button of a job, without a number until the number is exact. */
function buttonOf(verb: string, counted: Counted | undefined): string {
  return counted?.isExact === true ? `${verb} ${plural(counted.matched, "task")}` : "Counting…";
}

function canStart(counted: Counted | undefined): boolean {
  return counted?.isExact === true && counted.matched > 0;
}

async function startJob(call: Request, done = "The bulk job has started"): Promise<void> {
  await sendCall(call, done);
  navigate(href("/jobs"));
}

const words = {
  replay: {
    verb: "Replay",
    done: "Replayed",
    icon: "replay",
    about: "Tasks keep their id, and get all their attempts again.",
    isFinal: false,
  },
  cancel: {
    verb: "Cancel",
    done: "Cancelled",
    icon: "x",
    about: "Waiting tasks end as cancelled. Workers of running tasks are notified to stop.",
    isFinal: true,
  },
  delete: {
    verb: "Delete",
    done: "Deleted",
    icon: "trash",
    about: "Payloads, results and errors are deleted permanently.",
    isFinal: true,
  },
} as const;
type BulkAction = keyof typeof words;

const whats: Readonly<Record<string, string>> = {
  failure: "failures: dead letters and failed tasks",
  dead: "dead letters",
  failed: "failed tasks",
  done: "completed tasks",
  cancelled: "cancelled tasks",
};

/** What a job is about, from the place in its filter. */
function whatOf(action: BulkAction | "move", { place }: TaskQuery): string {
  if (action === "cancel") return place === undefined ? "tasks that wait or run" : `${place} tasks`;
  if (action === "move") return "tasks that wait";
  return whats[place ?? "failure"] ?? "tasks";
}

/** Replayed tasks are work for others; the other actions are work for the server only. */
const rates: Readonly<Record<BulkAction | "move", string>> = {
  replay: "100",
  cancel: "1000",
  delete: "1000",
  move: "1000",
};
const rateMax = 10_000;

function isRate(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= rateMax;
}

interface RateFieldProps {
  readonly rate: string;
  readonly onChange: (rate: string) => void;
  readonly counted: Counted | undefined;
}

/** How fast a job may be, and how long it takes then. */
function RateField({ rate, onChange, counted }: RateFieldProps): JSX.Element {
  const takesMs = ((counted?.matched ?? 0) / Number(rate)) * 1000;
  return (
    <>
      <TextField
        label="Tasks per second at most"
        inputMode="numeric"
        value={rate}
        onChange={onChange}
      />
      {!isRate(rate) ? (
        <p class="sub">From 1 to {count(rateMax)}.</p>
      ) : counted?.isExact === true ? (
        <p class="sub">The job takes about {duration(Math.max(1000, takesMs))}.</p>
      ) : null}
    </>
  );
}

export function askBulkJob(action: BulkAction, matching: Matching): void {
  openDialog(<BulkJobDialog action={action} {...matching} />);
}

function BulkJobDialog(props: Matching & { readonly action: BulkAction }): JSX.Element {
  const { action, filter, shown } = props;
  const { verb, icon, about, isFinal } = words[action];
  const [rate, setRate] = useState(rates[action]);
  const body = { action, ...filterBody(filter) };
  const counted = useJobCount(body);
  const call = jobCall({ ...body, ratePerSecond: Number(rate) });
  const isExact = counted?.isExact === true;
  return (
    <ActionDialog
      title={`${verb} all that match?`}
      about={<Given text={`Filter: ${shown}`} max={300} />}
      button={buttonOf(verb, counted)}
      icon={icon}
      isFinal={isFinal}
      confirm={isFinal && isExact ? (filter.command ?? String(counted.matched)) : undefined}
      call={call}
      isReady={canStart(counted) && isRate(rate)}
      run={() => startJob(call)}
    >
      <Count counted={counted} what={whatOf(action, filter)} />
      <RateField rate={rate} onChange={setRate} counted={counted} />
      <Note icon={isFinal ? "warn" : "replay"}>
        {about} The server does it step by step as a bulk job, which can be paused and aborted.
        Tasks that come later are left alone.
      </Note>
    </ActionDialog>
  );
}

/** Actions on tasks that were selected one by one, with the number of tasks that is known. */
const callsOfEach = {
  cancel: "POST /admin/tasks/:id/cancel",
  delete: "DELETE /admin/tasks/:id",
  replay: "POST /admin/tasks/:id/replay",
} as const;

/** Replays, cancels or deletes selected tasks with one call each. */
export function askEach(action: BulkAction, ids: readonly string[]): void {
  const { verb, done, about, isFinal, icon } = words[action];
  const callFor = (id: string): Request => callOf(callsOfEach[action], { params: { id } });
  openDialog(
    <ActionDialog
      title={`${verb} ${plural(ids.length, "task")}?`}
      about={`One call for each task. ${about}`}
      button={`${verb} ${plural(ids.length, "task")}`}
      icon={icon}
      isFinal={isFinal}
      confirm={isFinal ? String(ids.length) : undefined}
      call={callFor(ids[0] ?? "")}
      run={() => sendEach(ids, callFor, (tasks) => `${done} ${tasks}`)}
    />,
  );
}

async function sendEach(
  ids: readonly string[],
  callFor: (id: string) => Request,
  say: (tasks: string) => string,
): Promise<void> {
  let refused = 0;
  let firstProblem = "";
  for (const id of ids) {
    try {
      await ask(callFor(id));
    } catch (error) {
      refused += 1;
      firstProblem ||= (error as Error).message;
    }
  }
  const rest = refused === 0 ? "" : `, ${count(refused)} refused: ${firstProblem}`;
  tell(say(plural(ids.length - refused, "task")) + rest);
  invalidate();
}

export function askMoveMany({ ids, filter, shown }: Selection): void {
  openDialog(
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
  const callFor = (id: string): Request =>
    callOf("PATCH /admin/tasks/:id", { params: { id }, body: { command } });
  return (
    <ActionDialog
      title={`Move ${plural(ids.length, "task")}?`}
      about={`One call for each task. ${aboutMoves}`}
      button={`Move ${plural(ids.length, "task")}`}
      icon="move"
      call={callFor(ids[0] ?? "")}
      isReady={command !== ""}
      run={() => sendEach(ids, callFor, (tasks) => `Moved ${tasks} to ${command}`)}
    >
      <TextField label="To queue" isCode value={to} onChange={setTo} />
    </ActionDialog>
  );
}

function MoveMatching({ filter, shown }: Matching): JSX.Element {
  const [to, setTo] = useState("");
  const [rate, setRate] = useState(rates.move);
  const found = { action: "move", ...filterBody(filter) } as const;
  // A job must name a queue; the name does not change which tasks match.
  const counted = useJobCount({ ...found, moveTo: "any" });
  const call = jobCall({ ...found, moveTo: to.trim(), ratePerSecond: Number(rate) });
  return (
    <ActionDialog
      title="Move all that match?"
      about={<Given text={`Filter: ${shown}`} max={300} />}
      button={buttonOf("Move", counted)}
      icon="move"
      call={call}
      isReady={canStart(counted) && to.trim() !== "" && isRate(rate)}
      run={() => startJob(call)}
    >
      <Count counted={counted} what={whatOf("move", filter)} />
      <TextField label="To queue" isCode value={to} onChange={setTo} />
      <RateField rate={rate} onChange={setRate} counted={counted} />
      <Note icon="move">{aboutMoves} The job can be paused and aborted.</Note>
    </ActionDialog>
  );
}

/** Replays failures in growing steps, and stops when too many fail again. */
export function CanaryDialog({ filter, shown }: Matching): JSX.Element {
  const [first, setFirst] = useState("10");
  const [percent, setPercent] = useState("10");
  const [rate, setRate] = useState("200");
  const base = { action: "replay", ...filterBody(filter) } as const;
  const counted = useJobCount(base);
  const call = jobCall({
    ...base,
    canary: true,
    canaryFirst: Number(first),
    canaryFailurePercent: Number(percent),
    ratePerSecond: Number(rate),
  });
  const isNumber = (text: string): boolean => /^[1-9]\d{0,5}$/.test(text);
  const isPercent = (text: string): boolean => /^\d{1,3}$/.test(text) && Number(text) <= 100;
  const field = { inputMode: "numeric" } as const;
  return (
    <ActionDialog
      title="Replay as a canary?"
      about={<Given text={`Filter: ${shown}`} max={300} />}
      button={`Replay the first ${first}`}
      icon="replay"
      call={call}
      isReady={isNumber(first) && isPercent(percent) && isRate(rate) && canStart(counted)}
      run={() => startJob(call, "The canary has started")}
    >
      <Count counted={counted} what={whatOf("replay", filter)} />
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
