/** Dead letters by cause: what fails, how often, and replay or delete what belongs together. */
import type { JSX } from "preact";
import { count, plural, shortId } from "../format.ts";
import { type FailureGroup, type GroupState, useFailures } from "../model/failures.ts";
import { Given, Meta, Nothing, PageHead, Panel, Pending, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import { Sparkline } from "../parts/charts.tsx";
import { Icon } from "../parts/icon.tsx";
import { href, useLocation } from "../router.ts";
import { askCanary } from "./bulk-jobs.tsx";
import { askDeadLetters } from "./task-actions.tsx";
import { GroupBadge, stateWords, TriageButtons, TriageLine } from "./triage.tsx";

export function Failures(): JSX.Element {
  const { query } = useLocation();
  const queue = query.get("queue") ?? "";
  const { data, error } = useFailures(queue);
  if (data === undefined) return <Pending error={error} />;
  const { isPartial } = data;
  const view = viewOf(query.get("state"));
  const groups = data.groups.filter(({ state }) => views[view].includes(state));
  const chosen = groups.find(({ id }) => id === query.get("group")) ?? groups[0];
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <PageHead
        title="Failures"
        about={
          <>
            {isPartial ? "At least " : ""}
            {plural(total, "dead letter")} in {plural(groups.length, "group")}
            {queue === "" ? null : (
              <>
                {" "}
                of <bdi>{queue}</bdi> (<a href={href("/failures")}>all queues</a>)
              </>
            )}
            . Errors that differ only in numbers, ids, quoted text or paths count as one group.
          </>
        }
      >
        <a class="btn" href={href("/tasks", { q: "state:dead" })}>
          <Icon name="tasks" />
          All dead letters
        </a>
      </PageHead>
      <StateViews all={data.groups} view={view} queue={queue} />
      {chosen === undefined ? (
        <section class="panel">
          <Nothing icon="check" title={view === "open" ? "No open failures" : "No such group"}>
            <p>A task becomes a dead letter when its last attempt fails.</p>
          </Nothing>
        </section>
      ) : (
        <div class="cols inbox">
          <section class="panel" aria-label="Groups">
            <ul class="groups">
              {groups.map((group) => (
                <GroupLine
                  key={group.id}
                  group={group}
                  queue={queue}
                  view={view}
                  isCurrent={group === chosen}
                />
              ))}
            </ul>
          </section>
          <GroupPanel group={chosen} />
        </div>
      )}
    </>
  );
}

/** What each view of the inbox shows. */
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
  readonly queue: string;
}): JSX.Element {
  return (
    <nav class="views" aria-label="Groups by state">
      {viewNames.map((name) => (
        <a
          key={name}
          href={href("/failures", { queue: props.queue, state: name === "open" ? "" : name })}
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
  readonly queue: string;
  readonly view: View;
  readonly isCurrent: boolean;
}

function GroupLine({ group, queue, view, isCurrent }: LineProps): JSX.Element {
  return (
    <li>
      <a
        href={href("/failures", { queue, state: view === "open" ? "" : view, group: group.id })}
        aria-current={isCurrent ? "true" : undefined}
      >
        <span class="m">
          <Pattern text={group.text} />
        </span>
        <span class="c">{count(group.count)}</span>
        <span class="w sub row wrap">
          <bdi>{group.commands.map(({ command }) => command).join(", ")}</bdi> ·{" "}
          <Time at={group.lastSeen} /> <GroupBadge state={group.state} />
        </span>
        <span class="tr">
          <Trend group={group} />
        </span>
      </a>
    </li>
  );
}

function Trend({ group }: { readonly group: FailureGroup }): JSX.Element {
  const today = group.trend.reduce((sum, each) => sum + each, 0);
  const label = `${plural(today, "failure")} in the last 24 hours, ${count(group.trend.at(-1) ?? 0)} in this hour`;
  return <Sparkline values={group.trend} label={label} tone="dead" />;
}

function GroupPanel({ group }: { readonly group: FailureGroup }): JSX.Element {
  const { id, commands, example } = group;
  const only = commands.length === 1 ? commands[0]?.command : undefined;
  const filter = { place: "dead", group: id, ...(only === undefined ? {} : { command: only }) };
  const selection = { ids: [], filter, shown: `group:${id}` };
  return (
    <Panel
      title="Group"
      id="group"
      note={id}
      actions={
        <>
          <Act class="sm danger" icon="trash" onClick={() => askDeadLetters("delete", selection)}>
            Delete…
          </Act>
          <Act class="sm" icon="replay" onClick={() => askDeadLetters("replay", selection)}>
            Replay…
          </Act>
          <Act class="sm primary" icon="shield" onClick={() => askCanary(selection)}>
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
            {commands.slice(0, 8).map((each) => (
              <Bar key={each.command} name={each.command} size={each.count} of={group.count} />
            ))}
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
          <a href={href("/tasks", { q: `state:dead group:${id}` })}>
            Show {plural(group.dlq, "task")}
          </a>
        </p>
      </div>
    </Panel>
  );
}

function Bar({ name, size, of }: { name: string; size: number; of: number }): JSX.Element {
  return (
    <>
      <span class="trunc">
        <Given text={name} max={60} />
      </span>
      <svg aria-hidden="true">
        <rect class="f-dead" width={`${(size / of) * 100}%`} height="8" />
      </svg>
      <span class="num">{count(size)}</span>
    </>
  );
}

const patternCharsMax = 600;

/** What differs between the errors of a group is shown as a mark. */
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
