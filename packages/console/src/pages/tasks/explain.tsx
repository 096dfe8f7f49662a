/** Why a task is in its place, as the server explains it. */
import type { ReplyOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { callOf } from "../../api.ts";
import { count, duration, plural, type TimeMode, time } from "../../format.ts";
import type { TaskRow } from "../../model/tasks.ts";
import { Given, Panel, Pending } from "../../parts/basics.tsx";
import { Icon, type IconName } from "../../parts/icon.tsx";
import { timeMode } from "../../preferences.ts";
import { useAnswer } from "../../query.ts";
import { useStore } from "../../store.ts";

type Explanation = ReplyOf<"GET /admin/tasks/:id/explain">;

const questions: Readonly<Record<TaskRow["place"], string>> = {
  ready: "Why is it not running?",
  delayed: "Why is it not running?",
  held: "What does it wait for?",
  leased: "What is it doing?",
  dead: "Why will it not run again?",
  done: "What came of it?",
  failed: "What came of it?",
  cancelled: "What came of it?",
};

export function Explain({ task }: { readonly task: TaskRow }): JSX.Element {
  const request = callOf("GET /admin/tasks/:id/explain", { params: { id: task.id } });
  const { data, error } = useAnswer("explain", request, { everyMs: 2000 });
  return (
    <Panel title={questions[task.place]} id="whyp">
      {data === undefined ? <Pending error={error} /> : <Answer of={data} task={task} />}
    </Panel>
  );
}

function Answer({ of, task }: { readonly of: Explanation; readonly task: TaskRow }): JSX.Element {
  const mode = useStore(timeMode);
  const isWaiting = task.place === "ready" || task.place === "delayed";
  return (
    <div class="panel-body why">
      <p class="answer">
        <Given text={withTimes(of, mode)} max={500} />
      </p>
      {isWaiting ? <Position of={of} /> : null}
      {isWaiting ? (
        <ul class="checks">
          {checksOf(of, task).map((check) => (
            <Check key={check.icon} {...check} />
          ))}
        </ul>
      ) : null}
    </div>
  );
}

/** Shows the times in a sentence of the server in the time zone of the user; errors stay unchanged. */
function withTimes({ rule, why, nextAt, paused }: Explanation, mode: TimeMode): string {
  const isOwn = ["delayed", "expired", "leased", "paused"].includes(rule);
  // The name of a lane may look like a time.
  const told = [nextAt, paused?.at].map((each) => Date.parse(each ?? ""));
  const instant = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/g;
  const form = mode === "utc" ? "utc" : "local";
  return why.replace(instant, (each) => {
    const ms = Date.parse(each);
    return isOwn || told.includes(ms) ? time(ms, form, 0) : each;
  });
}

/** In the order in which a claim checks the rules. */
function checksOf(of: Explanation, { place }: TaskRow): CheckProps[] {
  const { rule, paused, workers } = of;
  return [
    {
      isStop: rule === "delayed" || rule === "expired",
      icon: "delayed",
      text:
        rule === "expired"
          ? "It had to start earlier"
          : place === "delayed"
            ? "It is not due yet"
            : "It is due",
    },
    {
      isStop: rule === "paused" || rule === "lane_paused",
      icon: "pause",
      text: paused === undefined ? "Queue is not paused" : `Paused by ${paused.by}`,
      more: paused?.reason,
    },
    {
      isStop: rule === "no_worker" || rule === "no_worker_for_command",
      icon: "workers",
      text: `${plural(workers.connected, "worker")} connected, ${count(workers.asking)} asking for work`,
    },
    {
      isStop: rule in limits || rule === "workers_busy",
      icon: "block",
      text: limits[rule] ?? `${plural(of.queue.inProgress, "task")} of the queue being worked on`,
    },
  ];
}

const limits: Readonly<Record<string, string>> = {
  lease_quota: "The quota of leases is used up",
  storage: "The storage refuses writes",
  topic_limit: "The topic of the queue allows no more leases",
  topic_rate: "The rate of the queue is used up",
  lane_limit: "The lane of the task has as many leases as it may have",
  lane_rate: "The rate of the lane is used up",
  lane_held: "A worker has held the lane",
};

function Position({ of }: { readonly of: Explanation }): JSX.Element | null {
  const { ahead, startsIn, queue } = of;
  if (ahead === undefined && startsIn === undefined) return null;
  const before = (ahead?.higher ?? 0) + (ahead?.older ?? 0);
  return (
    <div class="pos">
      <div>
        <div class="sub">Position</div>
        <div class="v">
          {ahead?.isAtLeast === true ? "> " : ""}
          {count(before + 1)}
        </div>
        <div class="sub">of {count(queue.ready)} ready</div>
      </div>
      <div>
        <div class="sub">Starts in about</div>
        <div class="v">{startsIn === undefined ? "?" : duration(startsIn.fromSeconds * 1000)}</div>
        <div class="sub">
          {startsIn === undefined
            ? "no rate is known yet"
            : `up to ${duration(startsIn.toSeconds * 1000)}`}
        </div>
      </div>
    </div>
  );
}

interface CheckProps {
  readonly isStop: boolean;
  readonly icon: IconName;
  readonly text: string;
  readonly more?: string | undefined;
}

function Check({ isStop, icon, text, more }: CheckProps): JSX.Element {
  const given = <Given text={text} max={200} />;
  return (
    <li class={isStop ? "stop" : "pass"}>
      <Icon name={isStop ? icon : "check"} />
      {isStop ? <b>{given}</b> : <span>{given}</span>}
      {more === undefined ? null : (
        <span class="sub">
          <Given text={more} max={200} />
        </span>
      )}
    </li>
  );
}
