/** Failures, which are dead letters and failed tasks, grouped by cause; replay, delete or triage a group: resolve, ignore, snooze, reopen. */
import type { Given as GivenTo } from "@codeq/protocol";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { callOf } from "../api.ts";
import { count, duration, plural, shortId } from "../format.ts";
import { type FailureGroup, groupsMax, type Scope, useFailures } from "../model/failures.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import {
  Badge,
  Given,
  Meta,
  Note,
  Nothing,
  PageHead,
  Panel,
  Pending,
  Reason,
  Time,
} from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { Sparkline } from "../parts/charts.tsx";
import { Choices, TextField } from "../parts/fields.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { href, useLocation } from "../router.ts";
import { showFilter } from "../task-filter.ts";
import { sendCall, sendNow } from "../toasts.tsx";
import { CanaryDialog } from "./bulk-jobs.tsx";
import { askFailures } from "./tasks/task-actions.tsx";

type GroupState = FailureGroup["state"];
/** The most lines that the list of groups shows. */
const linesMax = 500;

export function Failures(): JSX.Element {
  const { query } = useLocation();
  const queue = query.get("queue") ?? "";
  const lane = query.get("lane") ?? "";
  const of = { queue, lane };
  const { data, error } = useFailures(of);
  // New counts change the order; the shown group stays, because its buttons act on it.
  const [read, setRead] = useState("");
  if (data === undefined) return <Pending error={error} />;
  const view = viewOf(query.get("state"));
  const groups = data.filter(({ state }) => views[view].includes(state));
  const withId = (wanted: string | null): FailureGroup | undefined =>
    groups.find(({ id }) => id === wanted);
  const chosen = withId(query.get("group")) ?? withId(read) ?? groups[0];
  if (chosen !== undefined && chosen.id !== read) setRead(chosen.id);
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <PageHead
        title="Failures"
        about={
          <>
            {plural(total, "failure")} in {plural(groups.length, "group")}
            {queue === "" ? null : (
              <>
                {" "}
                of {lane === "" ? null : <Given text={`lane ${lane} of `} max={60} />}
                <bdi>{queue}</bdi> (<a href={href("/failures")}>all queues</a>)
              </>
            )}
            . Errors that differ only in numbers, ids, quoted text or paths count as one group.
          </>
        }
      >
        <a class="btn" href={href("/tasks", { q: "state:failure" })}>
          <Icon name="tasks" />
          All failures
        </a>
      </PageHead>
      {data.length < groupsMax ? null : (
        <Note icon="warn">
          There are more than {count(groupsMax)} groups, because errors have words that differ from
          task to task. Others are not counted here; put such words in quotes.
        </Note>
      )}
      <StateViews all={data} view={view} of={of} />
      {chosen === undefined ? (
        <section class="panel">
          <Nothing icon="check" title={view === "open" ? "No open failures" : "No such group"}>
            <p>
              A failure is a task whose last attempt failed, or that its worker ended as failed.
            </p>
          </Nothing>
        </section>
      ) : (
        <div class="cols inbox">
          <section class="panel" aria-label="Groups">
            <ul class="groups">
              {groups.slice(0, linesMax).map((group) => (
                <GroupLine
                  key={group.id}
                  group={group}
                  of={of}
                  view={view}
                  isCurrent={group === chosen}
                />
              ))}
            </ul>
            {groups.length <= linesMax ? null : (
              <div class="panel-foot sub">
                {plural(groups.length - linesMax, "smaller group is", "smaller groups are")} not
                shown.
              </div>
            )}
          </section>
          <GroupPanel group={chosen} lane={lane} />
        </div>
      )}
    </>
  );
}

const views: Readonly<Record<View, readonly GroupState[]>> = {
  open: ["open", "returned"],
  snoozed: ["snoozed"],
  ignored: ["ignored"],
  resolved: ["resolved"],
};
type View = "open" | "snoozed" | "ignored" | "resolved";
const viewNames = ["open", "snoozed", "ignored", "resolved"] as const;

function viewOf(text: string | null): View {
  return viewNames.find((name) => name === text) ?? "open";
}

function StateViews(props: {
  readonly all: readonly FailureGroup[];
  readonly view: View;
  readonly of: Scope;
}): JSX.Element {
  return (
    <nav class="views" aria-label="Groups by state">
      {viewNames.map((name) => (
        <a
          key={name}
          href={href("/failures", { ...props.of, state: name === "open" ? "" : name })}
          aria-current={name === props.view ? "true" : undefined}
        >
          {stateWords[name]}{" "}
          <span class="sub">
            {count(props.all.filter(({ state }) => views[name].includes(state)).length)}
          </span>
        </a>
      ))}
    </nav>
  );
}

interface LineProps {
  readonly group: FailureGroup;
  readonly of: Scope;
  readonly view: View;
  readonly isCurrent: boolean;
}

function GroupLine({ group, of, view, isCurrent }: LineProps): JSX.Element {
  return (
    <li>
      <a
        href={href("/failures", { ...of, state: view === "open" ? "" : view, group: group.id })}
        aria-current={isCurrent ? "true" : undefined}
      >
        <span class="m">
          <Pattern text={group.text} />
        </span>
        <span class="c">{count(group.count)}</span>
        <span class="w sub row wrap">
          <bdi>{queuesOf(group)}</bdi> · <Time at={group.lastSeen} />{" "}
          <GroupBadge state={group.state} />
        </span>
        <span class="tr">
          <Trend group={group} />
        </span>
      </a>
    </li>
  );
}

const queuesShown = 3;
const nameCharsMax = 40;

/** The queues with the most failures, in one or two lines. */
function queuesOf({ commands }: FailureGroup): string {
  const names = commands.map(({ command: name }) =>
    name.length > nameCharsMax ? `${name.slice(0, nameCharsMax)}…` : name,
  );
  const rest = names.length > queuesShown ? ", …" : "";
  return names.slice(0, queuesShown).join(", ") + rest;
}

function Trend({ group }: { readonly group: FailureGroup }): JSX.Element {
  const today = group.trend.reduce((sum, each) => sum + each, 0);
  const label = `${plural(today, "failure")} in the last 24 hours, ${count(group.trend.at(-1) ?? 0)} in this hour`;
  return <Sparkline values={group.trend} label={label} tone="dead" />;
}

interface GroupProps {
  readonly group: FailureGroup;
  /** Only failures of this lane; empty for all. */
  readonly lane: string;
}

function GroupPanel({ group, lane }: GroupProps): JSX.Element {
  const { id, commands, example } = group;
  const shown = commands.slice(0, barsMax);
  const others = shown.reduce((left, each) => left - each.count, group.count);
  const only = commands.length === 1 ? commands[0]?.command : undefined;
  const ofLane = lane === "" ? undefined : lane;
  const filter = { place: "failure", group: id, command: only, lane: ofLane } as const;
  const tokens = [
    { key: "state", value: "failure" },
    { key: "group", value: id },
    ...(lane === "" ? [] : [{ key: "lane", value: lane }]),
  ];
  const selection = { ids: [], filter, shown: showFilter(tokens) };
  return (
    <Panel
      title="Group"
      id="group"
      note={id}
      actions={
        <>
          <Act class="sm danger" icon="trash" onClick={() => askFailures("delete", selection)}>
            Delete…
          </Act>
          <Act class="sm" icon="replay" onClick={() => askFailures("replay", selection)}>
            Replay…
          </Act>
          <Act
            class="sm primary"
            icon="shield"
            onClick={() => openDialog(<CanaryDialog {...selection} />)}
          >
            Replay as a canary…
          </Act>
        </>
      }
    >
      <div class="panel-body why">
        <p class="fp">
          <Pattern text={group.text} />
        </p>
        <TriageLine group={group} />
        <div class="row wrap">
          <TriageButtons group={group} />
        </div>
        <div class="meta">
          <Meta name="Dead letters">
            <b>{count(group.dlq)}</b>
          </Meta>
          <Meta name="Failed">
            <b>{count(group.failed)}</b>
          </Meta>
          <Meta name="First">
            <Time at={group.firstSeen} />
          </Meta>
          <Meta name="Last">
            <Time at={group.lastSeen} />
          </Meta>
        </div>
        <div>
          <h3>Queues</h3>
          <div class="hbar">
            {shown.map((each) => (
              <Bar key={each.command} name={each.command} size={each.count} of={group.count} />
            ))}
            {others === 0 ? null : <Bar name="other queues" size={others} of={group.count} />}
          </div>
        </div>
        <div>
          <h3>Example</h3>
          <p class="fp">
            <Given text={example.error} max={600} />
          </p>
        </div>
        <p class="row wrap">
          <a href={href(`/tasks/${example.taskId}`)}>Open example {shortId(example.taskId)}</a>
          <span class="faint">·</span>
          <a href={href("/tasks", { q: selection.shown })}>Show {plural(group.count, "task")}</a>
        </p>
      </div>
    </Panel>
  );
}

const barsMax = 8;

function Bar({ name, size, of }: { name: string; size: number; of: number }): JSX.Element {
  return (
    <>
      <span class="trunc">
        <Given text={name} max={60} />
      </span>
      <svg aria-hidden="true">
        <rect class="f t-dead" width={`${(size / of) * 100}%`} height="8" />
      </svg>
      <span class="num">{count(size)}</span>
    </>
  );
}

const patternCharsMax = 600;

/** Marks the parts that differ between the errors of a group. */
function Pattern({ text }: { readonly text: string }): JSX.Element {
  const parts = text.slice(0, patternCharsMax).split(/(<(?:n|id|ip|text|path|url|time|hex)>)/);
  return (
    <>
      {parts.map((part, at) =>
        at % 2 === 0 ? (
          <Given key={`${at}`} text={part} />
        ) : (
          <em key={`${at}`}>{part.slice(1, -1)}</em>
        ),
      )}
    </>
  );
}

const minuteMs = 60_000;
const snoozes = { 3600: "1 hour", 28800: "8 hours", 86400: "1 day", 604800: "7 days" } as const;

const stateWords: Readonly<Record<GroupState, string>> = {
  open: "Open",
  returned: "Returned",
  resolved: "Resolved",
  ignored: "Ignored",
  snoozed: "Snoozed",
};

const icons: Readonly<Record<Exclude<GroupState, "open">, IconName>> = {
  returned: "warn",
  resolved: "check",
  ignored: "eyeoff",
  snoozed: "snooze",
};

function GroupBadge({ state }: { readonly state: GroupState }): JSX.Element | null {
  if (state === "open") return null;
  return (
    <Badge tone={state === "returned" ? "warn" : "mute"} icon={icons[state]}>
      {stateWords[state]}
    </Badge>
  );
}

type Decision = GivenTo<"PUT /admin/failure-groups/:id/triage">["body"];

function triageCall({ id }: FailureGroup, body: Decision) {
  return callOf("PUT /admin/failure-groups/:id/triage", { params: { id }, body });
}

function reopen(group: FailureGroup): void {
  sendNow(triageCall(group, { state: "open" }), "The group is open again", "failures");
}

function TriageButtons({ group }: { readonly group: FailureGroup }): JSX.Element {
  if (group.state !== "open" && group.state !== "returned") {
    return (
      <Act class="sm" onClick={() => reopen(group)}>
        Open again
      </Act>
    );
  }
  return (
    <>
      {(["resolved", "ignored", "snoozed"] as const).map((state) => (
        <Act
          key={state}
          class="sm"
          icon={icons[state]}
          onClick={() => openDialog(<TriageDialog group={group} state={state} />)}
        >
          {verbs[state]}
        </Act>
      ))}
    </>
  );
}

const verbs = { resolved: "Resolve", ignored: "Ignore", snoozed: "Snooze…" } as const;
const meanings = {
  resolved: "Its tasks stay. The group is marked as returned when it fails again.",
  ignored: "Its tasks stay. The group leaves the inbox, also when it fails again.",
  snoozed: "Its tasks stay. The group leaves the inbox until the time is over.",
} as const;

function TriageDialog(props: {
  readonly group: FailureGroup;
  readonly state: keyof typeof verbs;
}): JSX.Element {
  const { group, state } = props;
  const [reason, setReason] = useState("");
  const [seconds, setSeconds] = useState<`${keyof typeof snoozes}`>("28800");
  const body = {
    state,
    ...(state === "snoozed" ? { snoozeSeconds: Number(seconds) } : {}),
    ...(reason.trim() === "" ? {} : { reason: reason.trim() }),
  };
  const call = triageCall(group, body);
  const verb = verbs[state].replace("…", "");
  return (
    <ActionDialog
      title={`${verb} this group?`}
      about={`${plural(group.count, "failure")}. ${meanings[state]}`}
      button={`${verb} group`}
      icon={icons[state]}
      call={call}
      run={() => sendCall(call, `${stateWords[state]} the group`, "failures")}
    >
      {state === "snoozed" ? (
        <Choices label="How long" options={snoozes} value={seconds} onChange={setSeconds} />
      ) : null}
      <TextField
        label="Reason, shown to everyone"
        maxLength={500}
        value={reason}
        onChange={setReason}
      />
    </ActionDialog>
  );
}

/** The last decision, and who made it. */
function TriageLine({ group }: { readonly group: FailureGroup }): JSX.Element | null {
  const { triage, state } = group;
  if (triage === undefined) return null;
  const word = state === "returned" ? "Failed again after it was resolved by" : stateWords[state];
  const left = triage.until === undefined ? 0 : Date.parse(triage.until) - Date.now();
  return (
    <Note
      icon={state === "open" ? "snooze" : icons[state]}
      tone={state === "returned" ? "warn" : undefined}
    >
      {state === "open" ? "Snoozed before" : word}
      {state === "returned" ? " " : " by "}
      <b>
        <Given text={triage.by} max={100} />
      </b>{" "}
      <Time at={triage.at} />
      {left > 0 ? `, for another ${duration(Math.max(left, minuteMs))}` : ""}
      <Reason text={triage.reason} max={500} />
    </Note>
  );
}
