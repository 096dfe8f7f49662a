/** `jobs` and `dlq redrive`: change all tasks that match a filter, at a limited rate. */
import type { ItemOf, ReplyOf } from "@codeq/client/command-line";
import { ask, type BodyOf, bodyOf, print, showList } from "../../api/contract-commands.ts";
import type { Call } from "../../call.ts";
import { usageError } from "../../cli-error.ts";
import type { Column } from "../../terminal/table.ts";
import { count, counted, duration, localMoment } from "../../terminal/units.ts";
import { intervalOf, lookAgain } from "../../watch/look.ts";
import { filterOf, isGiven } from "../tasks/tasks.ts";

type BulkJob = ItemOf<"GET /admin/jobs">;
type JobBody = BodyOf<"POST /admin/jobs">;

export function list(call: Call): Promise<void> {
  return showList(call, ["GET /admin/jobs"], { columns, none: "no jobs" });
}

export async function show(call: Call): Promise<void> {
  const given = { params: { id: call.word(0) } };
  if (!call.options.has("watch")) return print(call, ["GET /admin/jobs/:id", given], sayJob);
  const { host } = call;
  const quit = new AbortController();
  const signal = AbortSignal.any([host.stopped(), quit.signal]);
  await lookAgain(host.clock, {
    intervalMs: intervalOf(call),
    signal,
    look: async () => {
      const { text, value } = await ask(call, "GET /admin/jobs/:id", given);
      call.print(call.json ? text : sayJob(value));
      if (value.state !== "running") quit.abort();
    },
    away: (error) => call.note(error.message),
  });
}

/** Begins a job for the tasks that the options mean. */
export function start(call: Call): Promise<void> {
  const [action, command] = call.words;
  const hasTarget = call.options.has("to");
  if ((action === "move") !== hasTarget) {
    throw usageError(hasTarget ? "--to is for the action move" : "move needs --to <queue>");
  }
  // The table of commands lets no other action through.
  return begin(call, { action: action as JobBody["action"], command });
}

/** Replays failures: few first, and more while enough of them succeed. */
export function redrive(call: Call): Promise<void> {
  const [command] = call.words;
  return begin(call, { action: "replay", command, canary: true });
}

export function pause(call: Call): Promise<void> {
  return change(call, "pause");
}

export function resume(call: Call): Promise<void> {
  return change(call, "resume");
}

export function abort(call: Call): Promise<void> {
  return change(call, "abort");
}

async function begin(call: Call, given: JobBody): Promise<void> {
  const { options } = call;
  const wanted = bodyOf(call, "POST /admin/jobs");
  const filter = { ...filterOf(call), command: given.command, place: wanted.place };
  const all = options.has("all") ? true : undefined;
  if (isGiven(filter) === (all === true)) {
    throw usageError("give a queue or a filter such as --error timeout, or --all");
  }
  const dryRun = options.has("dry-run") ? true : undefined;
  const body = { ...wanted, ...given, all, dryRun };
  return print(call, ["POST /admin/jobs", { body }], sayBegun);
}

/** A job that has begun, or what it would change. */
export function sayBegun(answer: ReplyOf<"POST /admin/jobs">): string {
  return "id" in answer
    ? `job ${answer.id} has begun; codeq jobs show ${answer.id} --watch follows it`
    : `${answer.hasMore ? "at least " : ""}${counted(answer.matched, "task")} would be changed`;
}

function change(call: Call, verb: "pause" | "resume" | "abort"): Promise<void> {
  const given = { params: { id: call.word(0) } };
  return print(call, [`POST /admin/jobs/:id/${verb}`, given], sayJob);
}

function sayJob(job: BulkJob): string {
  const { state, reason, total, matched, changed, failed, failures, etaSeconds } = job;
  const why = reason === undefined ? "" : ` (${reason})`;
  const head = `${actionOf(job)} is ${state}${why}: ${count(changed)} of ${total === undefined ? `${count(matched)} or more` : count(total)} changed, ${count(failed)} not${etaSeconds === undefined ? "" : `, about ${etaSeconds} s left`}`;
  const stage = job.canary?.stage;
  const waits =
    stage === undefined
      ? []
      : [
          `waits for ${stage.waiting} of ${stage.size} replayed tasks; ` +
            `${stage.succeeded} succeeded, ${stage.failedAgain} failed again`,
        ];
  const skipped = failures.map(({ id, code }) => `${id} was skipped: ${code}`);
  return [head, ...waits, ...skipped].join("\n");
}

function actionOf({ action, moveTo }: BulkJob): string {
  return moveTo === undefined ? action : `${action} to ${moveTo}`;
}

const columns: readonly Column<BulkJob>[] = [
  { title: "ID", show: ({ id }) => id },
  { title: "ACTION", show: actionOf },
  { title: "STATE", show: ({ state }) => state },
  { title: "CHANGED", align: "right", show: ({ changed }) => count(changed) },
  {
    title: "TOTAL",
    align: "right",
    show: ({ total }) => (total === undefined ? "-" : count(total)),
  },
  { title: "FAILED", align: "right", show: ({ failed }) => count(failed) },
  {
    title: "LEFT",
    align: "right",
    show: ({ etaSeconds }) => (etaSeconds === undefined ? "-" : duration(etaSeconds * 1000)),
  },
  { title: "CREATED", show: ({ createdAt }) => localMoment(createdAt) },
  {
    title: "FILTER",
    show: ({ filter }) =>
      Object.entries(filter)
        .map(([name, value]) => `${name}=${value}`)
        .join(" ") || "all",
  },
];
