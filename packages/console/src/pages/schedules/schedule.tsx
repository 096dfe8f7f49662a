/** One schedule: its next times, what it did and why it did not, and actions. */
import type { ItemOf, ReplyOf } from "@codeq/protocol";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, callOf } from "../../api.ts";
import { count, plural } from "../../format.ts";
import { ActionDialog, Blast, Effects, openDialog } from "../../overlays/dialog.tsx";
import {
  type Fact,
  Facts,
  Given,
  Note,
  Nothing,
  PageHead,
  Panel,
  Pending,
  QueueLink,
  Reason,
  TaskLink,
  Time,
} from "../../parts/basics.tsx";
import { Act, Button } from "../../parts/buttons.tsx";
import { TextField } from "../../parts/fields.tsx";
import { Icon } from "../../parts/icon.tsx";
import { CardTable, type Column, column, num, title } from "../../parts/tables.tsx";
import { useAnswer } from "../../query.ts";
import { href, navigate } from "../../router.ts";
import { showFilter } from "../../task-filter.ts";
import { sendCall, sendNow, tell, tellProblem } from "../../toasts.tsx";
import { Stat } from "../queue.tsx";
import { PlannedRuns, timesOf, zoneOf } from "./planned-runs.tsx";
import { skipsOf } from "./schedules.tsx";

type Schedule = ReplyOf<"GET /admin/schedules/:id">;
type Run = ItemOf<"GET /admin/schedules/:id/runs">;

const historyRows = 100;
const plannedRows = 10;

export function ScheduleDetails({ id }: { readonly id: string }): JSX.Element {
  const request = callOf("GET /admin/schedules/:id", { params: { id } });
  const { data: schedule, error } = useAnswer("schedules", request, { everyMs: 5000 });
  if (schedule === undefined && error?.code === "schedule_not_found") {
    return (
      <Nothing title="There is no such schedule" icon="delayed" isPage>
        <p>
          <a href={href("/schedules")}>All schedules</a>
        </p>
      </Nothing>
    );
  }
  if (schedule === undefined) return <Pending error={error} />;
  return (
    <>
      <PageHead title={<bdi>{schedule.id}</bdi>}>
        <Actions schedule={schedule} />
      </PageHead>
      <StateNote schedule={schedule} />
      <Figures schedule={schedule} />
      <div class="cols c-6-6">
        <Panel title="Next runs" id="next-runs" note={timesOf(schedule)}>
          <PlannedRuns spec={schedule} rows={plannedRows} />
        </Panel>
        <div class="cols">
          <Explain id={schedule.id} />
          <Panel title="Settings" id="settings" note={`version ${schedule.version}`}>
            <div class="panel-body">
              <Facts of={factsOf(schedule)} />
            </div>
          </Panel>
        </div>
      </div>
      <History id={schedule.id} />
    </>
  );
}

function StateNote({ schedule }: { readonly schedule: Schedule }): JSX.Element | null {
  const { id, paused, waitingAt, nextAt, handledAt } = schedule;
  if (paused !== undefined) {
    return (
      <Note icon="pause" tone="warn">
        Paused by <bdi>{paused.by}</bdi> <Time at={paused.at} />
        <Reason text={paused.reason} max={300} />. No task is created; what is due is skipped.{" "}
        <Act class="sm" icon="play" onClick={() => resume(id)}>
          Resume
        </Act>
      </Note>
    );
  }
  if (waitingAt !== undefined) {
    return (
      <Note icon="delayed">
        The task for <Time at={waitingAt} /> is created when the running one has ended.
      </Note>
    );
  }
  if (nextAt !== undefined) return null;
  return (
    <Note icon="warn" tone="warn">
      This schedule creates no more tasks. It decided about every time up to <Time at={handledAt} />
      .
    </Note>
  );
}

function Figures({ schedule }: { readonly schedule: Schedule }): JSX.Element {
  const { id, nextAt, lastAt, fired, skipped, live, failures = 0 } = schedule;
  const { overlap = "skip", catchUp = "latest", within } = schedule;
  const reasons = Object.entries(skipped).filter(([, many]) => many > 0);
  const why = reasons.map(([reason, many]) => `${count(many)} ${reason}`).join(", ");
  const tasks = href("/tasks", { q: showFilter([{ key: "schedule", value: id }]) });
  return (
    <section class="stats" aria-label="Counts">
      <Stat label="Next" note={zoneOf(schedule) || "elapsed time"}>
        <Time at={nextAt} none={schedule.paused === undefined ? "never" : "paused"} />
      </Stat>
      <Stat label="Tasks created" to={tasks} note="open tasks">
        {count(fired)}
      </Stat>
      <Stat label="Last" note="time of the last task">
        <Time at={lastAt} none="–" />
      </Stat>
      <Stat label="Skips" note={why || "none"}>
        {count(skipsOf({ skipped }))}
      </Stat>
      <Stat label="Live tasks" note="that have not ended">
        {count(live)}
      </Stat>
      <Stat label="Failures in a row" level={failures > 0 ? "bad" : undefined} note="of its tasks">
        {count(failures)}
      </Stat>
      <Stat label="Overlap" note="while a task is live">
        {overlap}
      </Stat>
      <Stat label="Catch-up" note={within === undefined ? "after down time" : `within ${within}`}>
        {catchUp}
      </Stat>
    </section>
  );
}

function factsOf(schedule: Schedule): Fact[] {
  const {
    command,
    spread,
    except = [],
    from,
    until,
    times = 0,
    pauseAfterFailures = 0,
    payload,
    unique,
    lane,
  } = schedule;
  const all: (readonly [string, ComponentChildren, boolean])[] = [
    ["Queue", <QueueLink key="queue" name={command} />, true],
    ["Spread over", spread, spread !== undefined],
    ["Not at", except.join("; "), except.length > 0],
    ["From", <Time key="from" at={from} />, from !== undefined],
    ["Until", <Time key="until" at={until} />, until !== undefined],
    ["Tasks in all", count(times), times > 0],
    ["Pauses after", plural(pauseAfterFailures, "failure"), pauseAfterFailures > 0],
    ["Unique key", `${unique?.key} (${unique?.on})`, unique !== undefined],
    ["Lane", lane, lane !== undefined],
    ["Payload", <Given key="payload" text={JSON.stringify(payload ?? {})} max={200} />, true],
    ["Changed", <Time key="changed" at={schedule.updatedAt} />, true],
  ];
  return all.flatMap(([name, value, isShown]): Fact[] => (isShown ? [[name, value]] : []));
}

function History({ id }: { readonly id: string }): JSX.Element {
  const given = { params: { id }, query: { limit: historyRows } };
  const request = callOf("GET /admin/schedules/:id/runs", given);
  const { data, error } = useAnswer("schedules", request, { everyMs: 5000 });
  return (
    <Panel
      title="History"
      id="history"
      note={data && `the last ${plural(data.runs.length, "entry", "entries")}`}
    >
      <CardTable
        rows={data?.runs}
        error={error}
        id={({ at, taskId = "", why = "" }) => `${at} ${taskId} ${why}`}
        columns={historyColumns}
        nothing={<p class="panel-body muted">Nothing yet.</p>}
      />
    </Panel>
  );
}

const reasons: Readonly<Record<NonNullable<Run["why"]>, string>> = {
  late: "too late to catch up",
  superseded: "a later time was due as well",
  overlap: "a task had not ended",
  replaced: "a later time took its place while it waited",
  paused: "the schedule was paused",
  quota: "the tenant had no room for the task",
  unique: "another task had the unique key",
};

const historyColumns: readonly Column<Run>[] = [
  title(
    "For",
    ({ at, until }) => (
      <>
        <Time at={at} />
        {until === undefined || until === at ? null : (
          <>
            {" "}
            to <Time at={until} />
          </>
        )}
      </>
    ),
    "full",
  ),
  column("What", ({ kind, why, count: many }) => (why === undefined ? kind : plural(many, "skip"))),
  column("Why", ({ why }) => (why === undefined ? "" : reasons[why])),
  column("Status", ({ status = "" }) => status),
  num("Task", ({ taskId }) => (taskId === undefined ? "" : <TaskLink id={taskId} />)),
];

/** "Why did it not run at 02:30?" */
function Explain({ id }: { readonly id: string }): JSX.Element {
  const [at, setAt] = useState("");
  const [text, setText] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    const call = callOf("GET /admin/schedules/:id/explain", { params: { id }, query: { at } });
    ask(call).then((answer) => setText(answer.text), tellProblem);
  };
  return (
    <Panel title="Why did it run, or not?" id="explain">
      <form class="panel-body" onSubmit={submit}>
        <TextField
          label="A local time of the schedule, or an instant"
          isCode
          value={at}
          input={{ placeholder: "2026-03-29T02:30" }}
          onChange={setAt}
        />
        <p class="row wrap">
          <Button type="submit" icon="help" disabled={at.trim() === ""}>
            Explain
          </Button>
          <span role="status">{text}</span>
        </p>
      </form>
    </Panel>
  );
}

function Actions({ schedule }: { readonly schedule: Schedule }): JSX.Element {
  const { id, paused } = schedule;
  return (
    <>
      <a class="btn" href={href("/tasks", { q: showFilter([{ key: "schedule", value: id }]) })}>
        <Icon name="tasks" />
        Open tasks
      </a>
      <Act icon="bolt" onClick={() => runNow(id)}>
        Run now
      </Act>
      {paused === undefined ? (
        <Act icon="pause" onClick={() => openDialog(<PauseDialog id={id} />)}>
          Pause…
        </Act>
      ) : (
        <Act icon="play" onClick={() => resume(id)}>
          Resume
        </Act>
      )}
      <Act icon="replay" onClick={() => openDialog(<Backfill id={id} />)}>
        Backfill…
      </Act>
      <Act class="danger" icon="trash" onClick={() => askDelete(id)}>
        Delete…
      </Act>
    </>
  );
}

function runNow(id: string): void {
  const call = callOf("POST /admin/schedules/:id/run", { params: { id } });
  sendNow(call, `Created a task of ${id}`, "schedules");
}

function resume(id: string): void {
  const call = callOf("POST /admin/schedules/:id/resume", { params: { id } });
  sendNow(call, `Resumed ${id}`, "schedules");
}

function PauseDialog({ id }: { readonly id: string }): JSX.Element {
  const [reason, setReason] = useState("");
  const call = callOf("POST /admin/schedules/:id/pause", { params: { id }, body: { reason } });
  return (
    <ActionDialog
      title={`Pause ${id}?`}
      about="No task is created until someone resumes the schedule."
      button="Pause schedule"
      icon="pause"
      call={call}
      run={() => sendCall(call, `Paused ${id}`, "schedules")}
    >
      <Effects
        of={[
          ["block", "Times that come during the pause are skipped, and counted when it ends."],
          ["ready", "Tasks that were created go on."],
        ]}
      />
      <TextField label="Reason" maxLength={200} value={reason} onChange={setReason} />
    </ActionDialog>
  );
}

function askDelete(id: string): void {
  const call = callOf("DELETE /admin/schedules/:id", { params: { id } });
  const run = async (): Promise<void> => {
    await ask(call);
    navigate(href("/schedules"));
    tell(`Deleted ${id}`);
  };
  openDialog(
    <ActionDialog
      title={`Delete ${id}?`}
      about="No more tasks are created. The tasks that were created stay."
      button="Delete schedule"
      icon="trash"
      isFinal
      confirm={id}
      call={call}
      run={run}
    />,
  );
}

const dayMs = 86_400_000;

/** Counts first, with a dry run; then starts a bulk job. */
function Backfill({ id }: { readonly id: string }): JSX.Element {
  const [from, setFrom] = useState(() => new Date(Date.now() - dayMs).toISOString());
  const [until, setUntil] = useState(() => new Date().toISOString());
  const [counted, setCounted] = useState<{ matched: number; hasMore?: boolean; of: string }>();
  const params = { id };
  const span = { from: from.trim(), until: until.trim() };
  const of = JSON.stringify(span);
  const call = callOf("POST /admin/schedules/:id/backfill", { params, body: span });
  const isCounted = counted?.of === of;
  const countNow = (): void => {
    const body = { ...span, dryRun: true };
    ask(callOf("POST /admin/schedules/:id/backfill", { params, body })).then((answer) => {
      if ("matched" in answer) setCounted({ ...answer, of });
    }, tellProblem);
  };
  const many = isCounted
    ? `${counted.hasMore === true ? "at least " : ""}${count(counted.matched)}`
    : "…";
  const run = async (): Promise<void> => {
    await sendCall(call, "The bulk job has started", "schedules");
    navigate(href("/jobs"));
  };
  return (
    <ActionDialog
      title={`Backfill ${id}`}
      about="A bulk job creates a task for each time of the span that has none, the oldest first."
      button={isCounted ? `Create ${plural(counted.matched, "task")}` : "Count first"}
      icon="replay"
      call={call}
      isReady={isCounted && counted.matched > 0}
      run={run}
    >
      <TextField label="From (RFC 3339)" isCode value={from} onChange={setFrom} />
      <TextField
        label="Until (RFC 3339), not in the future"
        isCode
        value={until}
        onChange={setUntil}
      />
      <Blast count={many} what="times without a task" note="dry run" />
      <Button icon="search" onClick={countNow}>
        Count
      </Button>
      <Note icon="leased">The tasks do not count for overlap.</Note>
    </ActionDialog>
  );
}
