/** Bulk jobs: how far each is, and pause, resume or abort it. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count, plural, share } from "../format.ts";
import { type Job, jobsPath, useJobs } from "../model/jobs.ts";
import { ActionDialog, openDialog } from "../overlays/dialog.tsx";
import { Act } from "../parts/act.tsx";
import { Given, Nothing, Pending, Time } from "../parts/basics.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { TextField } from "../parts/text-field.tsx";
import { href, navigate } from "../router.ts";
import { sendCall, sendNow } from "../send-call.ts";
import { Blast, useDryRun } from "./bulk-job.tsx";

export function Jobs(): JSX.Element {
  const { data, error } = useJobs();
  if (data === undefined) return <Pending error={error} />;
  const running = data.jobs.filter(({ state }) => state === "running").length;
  return (
    <>
      <PageHead
        title="Bulk jobs"
        about={
          <>
            {plural(running, "job")} running. A job goes on after a restart, and every job leaves an
            audit record.
          </>
        }
      />
      <section class="panel" aria-label="Bulk jobs">
        {data.jobs.length === 0 ? (
          <Nothing icon="bulk" title="No bulk jobs">
            <p>
              Replay a <a href={href("/failures")}>group of failures</a> as a canary, or act on all
              tasks that match a filter.
            </p>
          </Nothing>
        ) : (
          <ul class="list">
            {data.jobs.map((job) => (
              <JobLine key={job.id} job={job} />
            ))}
          </ul>
        )}
      </section>
    </>
  );
}

const looks: Readonly<Record<Job["state"], { readonly icon: IconName; readonly tone: string }>> = {
  running: { icon: "leased", tone: "st-leased" },
  paused: { icon: "pause", tone: "st-warn" },
  done: { icon: "done", tone: "good" },
  aborted: { icon: "cancelled", tone: "st-mute" },
  stopped: { icon: "dead", tone: "bad" },
};

function JobLine({ job }: { readonly job: Job }): JSX.Element {
  const { icon, tone } = looks[job.state];
  const isOpen = job.state === "running" || job.state === "paused";
  return (
    <li>
      <span class={tone}>
        <Icon name={icon} />
      </span>
      <span>
        <b>{job.canary === undefined ? titleOf(job.action) : "Canary replay"}</b>{" "}
        {job.moveTo === undefined ? null : (
          <>
            to <bdi>{job.moveTo}</bdi>:{" "}
          </>
        )}
        {count(job.changed)} of {count(job.matched)} matching tasks, {count(job.failed)} refused:{" "}
        <b>{job.state}</b>
        {job.reason === undefined ? null : (
          <>
            , <Given text={job.reason} max={200} />
          </>
        )}
      </span>
      <span class="row">
        {isOpen ? (
          <>
            <Act
              class="btn sm"
              onClick={() => act(job, job.state === "paused" ? "resume" : "pause")}
            >
              {job.state === "paused" ? "Resume" : "Pause"}
            </Act>
            <Act class="btn sm danger" onClick={() => act(job, "abort")}>
              Abort
            </Act>
          </>
        ) : null}
      </span>
      <span class="sub">
        <Stage job={job} />
        By <bdi>{job.by}</bdi>, <Time at={job.createdAt} />, {count(job.ratePerSecond)} per second
        at most. Filter:{" "}
        <code>
          <Given text={JSON.stringify(job.filter)} max={200} />
        </code>
      </span>
    </li>
  );
}

function Stage({ job }: { readonly job: Job }): JSX.Element | null {
  const stage = job.canary?.stage;
  if (stage === undefined || job.canary === undefined) return null;
  const ended = stage.succeeded + stage.failedAgain;
  return (
    <>
      Step of {plural(stage.size, "task")}: {count(stage.succeeded)} succeeded,{" "}
      {count(stage.failedAgain)} failed again ({share(ended === 0 ? 0 : stage.failedAgain / ended)},
      stops above {job.canary.failurePercent}%), {count(stage.waiting)} under way.{" "}
    </>
  );
}

function titleOf(action: Job["action"]): string {
  return `${action[0]?.toUpperCase()}${action.slice(1)}`;
}

const verbsDone = { pause: "Paused", resume: "Resumed", abort: "Aborted" } as const;

function act(job: Job, verb: keyof typeof verbsDone): void {
  const path = `${jobsPath}/${job.id}/${verb}`;
  sendNow({ method: "POST", path }, `${verbsDone[verb]} the job`, "jobs");
}

/** Replays dead letters in growing steps, and stops when too many fail again. */
export function askCanary(filter: Readonly<Record<string, string>>, shown: string): void {
  openDialog(() => <CanaryDialog filter={filter} shown={shown} />);
}

interface CanaryProps {
  readonly filter: Readonly<Record<string, string>>;
  readonly shown: string;
}

function CanaryDialog({ filter, shown }: CanaryProps): JSX.Element {
  const [first, setFirst] = useState("10");
  const [percent, setPercent] = useState("10");
  const [rate, setRate] = useState("200");
  const base = { action: "replay", ...filter };
  const { data: dryRun } = useDryRun(base);
  const body = {
    ...base,
    canary: true,
    canaryFirst: Number(first),
    canaryFailurePercent: Number(percent),
    ratePerSecond: Number(rate),
  };
  const call = { method: "POST", path: jobsPath, body } as const;
  const isNumber = (text: string): boolean => /^[1-9]\d{0,5}$/.test(text);
  return (
    <ActionDialog
      title="Replay as a canary?"
      about={`Filter: ${shown}`}
      button={`Replay the first ${first}`}
      icon={<Icon name="replay" />}
      call={call}
      isReady={[first, percent, rate].every(isNumber) && dryRun !== undefined}
      run={async () => {
        await sendCall(call, "The canary has started");
        navigate(href("/jobs"));
      }}
    >
      <Blast dryRun={dryRun} what="dead letters" />
      <p class="note">
        <Icon name="shield" />
        <span>
          The next, larger step starts when enough tasks of a step succeeded. Tasks keep their id.
        </span>
      </p>
      <TextField
        label="Tasks in the first step"
        inputMode="numeric"
        value={first}
        onChange={setFirst}
      />
      <div class="cols c-6-6">
        <TextField
          label="Stop above this share of failures, in %"
          inputMode="numeric"
          value={percent}
          onChange={setPercent}
        />
        <TextField
          label="Tasks per second at most"
          inputMode="numeric"
          value={rate}
          onChange={setRate}
        />
      </div>
    </ActionDialog>
  );
}
