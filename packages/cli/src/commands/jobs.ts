/** `jobs` and `dlq redrive`: change all tasks that match a filter, at a limited rate. */
import type { Call } from "../call.ts";
import { usageError } from "../cli-error.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Column, tableLines } from "../terminal/table.ts";
import { count, counted, localMoment } from "../terminal/units.ts";
import { intervalOf, lookAgain } from "../watch/look.ts";
import { filterOf } from "./tasks.ts";

interface BulkJob {
  readonly id: string;
  readonly action: string;
  /** Of `move`: the queue that the tasks go to. */
  readonly moveTo?: string;
  readonly filter: Readonly<Record<string, string>>;
  readonly state: string;
  readonly reason?: string;
  readonly createdAt: string;
  readonly matched: number;
  readonly changed: number;
  readonly failed: number;
  readonly failures: readonly { readonly id: string; readonly code: string }[];
  readonly canary?: {
    readonly stage?: {
      readonly size: number;
      readonly waiting: number;
      readonly succeeded: number;
      readonly failedAgain: number;
    };
  };
}

export async function list(call: Call): Promise<number> {
  const { text } = await (await call.api()).get("/admin/jobs");
  const { jobs } = JSON.parse(text) as { jobs: readonly BulkJob[] };
  if (call.json) call.print(text);
  else if (jobs.length === 0) call.print("no jobs");
  else for (const line of tableLines(columns, jobs, call.style)) call.print(line);
  return exitCodes.ok.code;
}

export async function show(call: Call): Promise<number> {
  if (!call.options.has("watch")) {
    print(call, await read(call));
    return exitCodes.ok.code;
  }
  const { host } = call;
  const quit = new AbortController();
  const signal = AbortSignal.any([host.stopped(), quit.signal]);
  await lookAgain(host.clock, {
    intervalMs: intervalOf(call),
    signal,
    look: async () => {
      const text = await read(call);
      print(call, text);
      const { state } = JSON.parse(text) as BulkJob;
      if (state !== "running") quit.abort();
    },
    away: (error) => call.note(error.message),
  });
  return exitCodes.ok.code;
}

/** Begins a job for the tasks that the options mean. */
export async function start(call: Call): Promise<number> {
  const [action, command] = call.words;
  const moveTo = call.options.text("to");
  if ((action === "move") !== (moveTo !== undefined)) {
    throw usageError(
      moveTo === undefined ? "move needs --to <queue>" : "--to is for the action move",
    );
  }
  return begin(call, { action, moveTo, ...(command === undefined ? {} : { command }) });
}

/** Replays dead letters: few first, and more while enough of them succeed. */
export async function redrive(call: Call): Promise<number> {
  const { options } = call;
  const [command] = call.words;
  return begin(call, {
    action: "replay",
    ...(command === undefined ? {} : { command }),
    canary: true,
    canaryFirst: options.wholeNumber("first", { min: 1, max: 1000 }),
    canaryFactor: options.wholeNumber("factor", { min: 1, max: 100 }),
    canaryFailurePercent: options.wholeNumber("max-failures", { min: 0, max: 100 }),
  });
}

export function pause(call: Call): Promise<number> {
  return change(call, "pause");
}

export function resume(call: Call): Promise<number> {
  return change(call, "resume");
}

export function abort(call: Call): Promise<number> {
  return change(call, "abort");
}

async function begin(call: Call, given: Readonly<Record<string, unknown>>): Promise<number> {
  const { options } = call;
  const { priority, ...filter } = filterOf(call);
  const isFiltered = Object.keys(filter).length > 0 || priority !== undefined;
  const isAll = options.has("all");
  if ((isFiltered || given["command"] !== undefined) === isAll) {
    throw usageError("give a queue or a filter such as --error timeout, or --all");
  }
  const body = {
    ...filter,
    ...given,
    ...(priority === undefined ? {} : { priority: Number(priority) }),
    ...(isAll ? { all: true } : {}),
    ratePerSecond: options.wholeNumber("rate", { min: 1, max: 10_000 }),
    dryRun: options.has("dry-run") ? true : undefined,
  };
  const { text } = await (await call.api()).post("/admin/jobs", JSON.stringify(body));
  if (call.json) call.print(text);
  else if (body.dryRun === true) {
    const { matched, hasMore } = JSON.parse(text) as { matched: number; hasMore: boolean };
    call.print(`${hasMore ? "at least " : ""}${counted(matched, "task")} would be changed`);
  } else {
    const { id } = JSON.parse(text) as BulkJob;
    call.print(`job ${id} has begun; codeq jobs show ${id} --watch follows it`);
  }
  return exitCodes.ok.code;
}

async function change(call: Call, verb: string): Promise<number> {
  const { text } = await (await call.api()).post(`${pathOf(call)}/${verb}`, "");
  print(call, text);
  return exitCodes.ok.code;
}

async function read(call: Call): Promise<string> {
  return (await (await call.api()).get(pathOf(call))).text;
}

function pathOf(call: Call): string {
  return `/admin/jobs/${encodeURIComponent(call.word(0))}`;
}

function print(call: Call, text: string): void {
  if (call.json) call.print(text);
  else for (const line of linesOf(JSON.parse(text) as BulkJob)) call.print(line);
}

function linesOf(job: BulkJob): string[] {
  const { state, reason, matched, changed, failed, failures } = job;
  const why = reason === undefined ? "" : ` (${reason})`;
  const head = `${actionOf(job)} is ${state}${why}: ${count(changed)} of ${count(matched)} changed, ${count(failed)} not`;
  const stage = job.canary?.stage;
  const waits =
    stage === undefined
      ? []
      : [
          `waits for ${stage.waiting} of ${stage.size} replayed tasks; ` +
            `${stage.succeeded} succeeded, ${stage.failedAgain} failed again`,
        ];
  return [head, ...waits, ...failures.map(({ id, code }) => `${id} was skipped: ${code}`)];
}

function actionOf({ action, moveTo }: BulkJob): string {
  return moveTo === undefined ? action : `${action} to ${moveTo}`;
}

const columns: readonly Column<BulkJob>[] = [
  { title: "ID", show: ({ id }) => id },
  { title: "ACTION", show: actionOf },
  { title: "STATE", show: ({ state }) => state },
  { title: "CHANGED", align: "right", show: ({ changed }) => count(changed) },
  { title: "FAILED", align: "right", show: ({ failed }) => count(failed) },
  { title: "CREATED", show: ({ createdAt }) => localMoment(createdAt) },
  {
    title: "FILTER",
    show: ({ filter }) =>
      Object.entries(filter)
        .map(([name, value]) => `${name}=${value}`)
        .join(" ") || "all",
  },
];
