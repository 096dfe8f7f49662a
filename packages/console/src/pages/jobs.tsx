/** Bulk jobs with their progress; pause, resume or abort a job. */
import type { ItemOf } from "@codeq/protocol";
import type { JSX } from "preact";
import { callOf } from "../api.ts";
import { count, duration, plural, share } from "../format.ts";
import { Given, Line, List, Nothing, PageHead, Pending, Time } from "../parts/basics.tsx";
import { Act } from "../parts/buttons.tsx";
import type { IconName } from "../parts/icon.tsx";
import { useAnswer } from "../query.ts";
import { href } from "../router.ts";
import { sendNow } from "../toasts.tsx";

type Job = ItemOf<"GET /admin/jobs">;

export function Jobs(): JSX.Element {
  const { data, error } = useAnswer("jobs", callOf("GET /admin/jobs"), { everyMs: 2000 });
  if (data === undefined) return <Pending error={error} />;
  const running = data.jobs.filter(({ state }) => state === "running").length;
  return (
    <>
      <PageHead
        title="Bulk jobs"
        about={`${plural(running, "job")} running. A job goes on after a restart, and every job leaves an audit record.`}
      />
      <section class="panel" aria-label="Bulk jobs">
        <List
          rows={data.jobs}
          nothing={
            <Nothing icon="bulk" title="No bulk jobs">
              <p>
                Replay a <a href={href("/failures")}>group of failures</a> as a canary, or act on
                all tasks that match a filter.
              </p>
            </Nothing>
          }
        >
          {(job) => <JobLine key={job.id} job={job} />}
        </List>
      </section>
    </>
  );
}

const looks: Readonly<Record<Job["state"], { readonly icon: IconName; readonly tone: string }>> = {
  running: { icon: "leased", tone: "t-leased" },
  paused: { icon: "pause", tone: "t-warn" },
  done: { icon: "done", tone: "good" },
  aborted: { icon: "cancelled", tone: "t-mute" },
  stopped: { icon: "dead", tone: "bad" },
};

function JobLine({ job }: { readonly job: Job }): JSX.Element {
  const sub = (
    <>
      {job.total === undefined || job.total === 0 ? null : (
        <progress
          class="job"
          max={job.total}
          value={job.changed + job.failed}
          aria-label={`${count(job.changed + job.failed)} of ${count(job.total)}`}
        />
      )}
      <Stage job={job} />
      By <bdi>{job.by}</bdi>, <Time at={job.createdAt} />, {count(job.ratePerSecond)} per second at
      most. Filter:{" "}
      <code>
        <Given text={JSON.stringify(job.filter)} max={200} />
      </code>
    </>
  );
  return (
    <Line {...looks[job.state]} action={<JobButtons job={job} />} sub={sub}>
      <b>{job.canary === undefined ? titleOf(job.action) : "Canary replay"}</b>{" "}
      {job.moveTo === undefined ? null : (
        <>
          to <bdi>{job.moveTo}</bdi>:{" "}
        </>
      )}
      {job.total === undefined
        ? "counting the tasks that match"
        : `${count(job.changed)} of ${plural(job.total, "task")}`}
      {job.failed === 0 ? null : `, ${count(job.failed)} refused`}: <b>{job.state}</b>
      {job.etaSeconds === undefined ? null : `, about ${duration(job.etaSeconds * 1000)} left`}
      {job.reason === undefined ? null : (
        <>
          , <Given text={job.reason} max={200} />
        </>
      )}
    </Line>
  );
}

function JobButtons({ job }: { readonly job: Job }): JSX.Element {
  const { state } = job;
  if (state !== "running" && state !== "paused") return <span class="row" />;
  return (
    <span class="row">
      <Act class="sm" onClick={() => act(job, state === "paused" ? "resume" : "pause")}>
        {state === "paused" ? "Resume" : "Pause"}
      </Act>
      <Act class="sm danger" onClick={() => act(job, "abort")}>
        Abort
      </Act>
    </span>
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

function act({ id }: Job, verb: keyof typeof verbsDone): void {
  const call = callOf(`POST /admin/jobs/:id/${verb}`, { params: { id } });
  sendNow(call, `${verbsDone[verb]} the job`, "jobs");
}
