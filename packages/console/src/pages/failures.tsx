/** Dead letters by cause: what fails, how often, and replay or delete what belongs together. */
import type { JSX } from "preact";
import { count, plural, shortId } from "../format.ts";
import { type FailureGroup, useFailures } from "../model/failures.ts";
import { Given, Nothing, Panel, Pending, Time } from "../parts/basics.tsx";
import { Icon } from "../parts/icon.tsx";
import { href, useLocation } from "../router.ts";
import { askCanary } from "./jobs.tsx";
import { askDeadLetters } from "./task-actions.tsx";

export function Failures(): JSX.Element {
  const { query } = useLocation();
  const queue = query.get("queue") ?? "";
  const { data, error } = useFailures(queue);
  if (data === undefined) return <Pending error={error} />;
  const { groups, isPartial } = data;
  const chosen = groups.find(({ id }) => id === query.get("group")) ?? groups[0];
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <div class="page-head">
        <div>
          <h1>Failures</h1>
          <p>
            {isPartial ? "At least " : ""}
            {plural(total, "dead letter")} in {plural(groups.length, "group")}
            {queue === "" ? null : (
              <>
                {" "}
                of <bdi>{queue}</bdi> (<a href={href("/failures")}>all queues</a>)
              </>
            )}
            . Errors that differ only in numbers, ids, quoted text or paths count as one group.
          </p>
        </div>
        <div class="acts">
          <a class="btn" href={href("/tasks", { q: "state:dead" })}>
            <Icon name="tasks" />
            All dead letters
          </a>
        </div>
      </div>
      {chosen === undefined ? (
        <section class="panel">
          <Nothing icon="check" title="No dead letters">
            <p>A task becomes one when its last attempt fails.</p>
          </Nothing>
        </section>
      ) : (
        <div class="inbox">
          <section class="panel" aria-label="Groups">
            <ul class="groups">
              {groups.map((group) => (
                <GroupLine
                  key={group.id}
                  group={group}
                  queue={queue}
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

interface LineProps {
  readonly group: FailureGroup;
  readonly queue: string;
  readonly isCurrent: boolean;
}

function GroupLine({ group, queue, isCurrent }: LineProps): JSX.Element {
  return (
    <li>
      <a
        href={href("/failures", { queue, group: group.id })}
        aria-current={isCurrent ? "true" : undefined}
      >
        <span class="m">
          <Pattern text={group.text} />
        </span>
        <span class="c">{count(group.count)}</span>
        <span class="w">
          <bdi>{group.commands.map(({ command }) => command).join(", ")}</bdi> ·{" "}
          <Time at={group.lastSeen} />
        </span>
      </a>
    </li>
  );
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
          <button
            class="btn sm danger"
            type="button"
            onClick={() => askDeadLetters("delete", selection)}
          >
            <Icon name="trash" small />
            Delete…
          </button>
          <button class="btn sm" type="button" onClick={() => askDeadLetters("replay", selection)}>
            <Icon name="replay" small />
            Replay…
          </button>
          <button
            class="btn sm primary"
            type="button"
            onClick={() => askCanary(filter, `group:${id}`)}
          >
            <Icon name="shield" small />
            Replay as a canary…
          </button>
        </>
      }
    >
      <div class="panel-body why">
        <p class="fp">
          <Pattern text={group.text} />
        </p>
        <div class="meta">
          <span>
            <i>Dead letters</i>
            <b>{count(group.dlq)}</b>
          </span>
          <span>
            <i>First</i>
            <Time at={group.firstSeen} />
          </span>
          <span>
            <i>Last</i>
            <Time at={group.lastSeen} />
          </span>
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
