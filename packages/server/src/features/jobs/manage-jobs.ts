/** Bulk jobs of the caller's tenant: start, show, pause, resume and abort. */
import { limits } from "@codeq/protocol";
import type { TaskFilter } from "../../core/search/task-filter.ts";
import { problemOfSearch } from "../../edge/hidden-payloads.ts";
import {
  type Answer,
  type AuditRule,
  type Call,
  type Operation,
  type Rate,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { describeFilter, type FilterInput, readFilter } from "../../edge/task-filter-input.ts";
import { isMeant } from "./bulk-jobs.ts";
import type { BulkJob, Canary, JobAction } from "./job-record.ts";

export interface CreateJobInput {
  /** `replay`, `delete`, `cancel` or `move`. */
  readonly action: string;
  readonly filter: FilterInput;
  /** Has to be said when there is no filter. */
  readonly isAll: boolean;
  /** Undefined for the default. */
  readonly ratePerSecond: number | undefined;
  readonly graceSeconds: number | undefined;
  /** The queue that tasks are moved to. */
  readonly moveTo: string | undefined;
  readonly canary: GivenCanary | undefined;
  /** Counts, and changes nothing. */
  readonly isDryRun: boolean;
}

/** What is undefined is the default. */
export type GivenCanary = { readonly [Name in keyof Canary]: number | undefined };

export type CreatedJob =
  | { readonly job: BulkJob }
  | { readonly matched: number; readonly hasMore: boolean };

const rate: Rate = { scope: "admin", operation: "tasks" };
const countedPagesMax = 20;
const countedTasks = 100_000;
const canaryDefault: Canary = { first: 10, factor: 2, failurePercentMax: 20 };

export const createJob: Operation<CreateJobInput, CreatedJob> = {
  name: "create_job",
  access: "admin",
  scope: undefined,
  rate,
  audit: {
    of: "all",
    target: ({ action, filter, isAll, isDryRun }) =>
      `${isDryRun ? "dry run: " : ""}${action} ${isAll ? "all" : describeFilter(filter)}`,
    detail: (created) => ("job" in created ? created.job.id : `${created.matched} tasks`),
  },
  run: async (server, call, input) => {
    const hidden = problemOfSearch(call, input.filter);
    if (hidden !== undefined) return hidden;
    const wanted = wantedOf(server, input);
    if (!wanted.ok) return wanted;
    if (input.isDryRun) return count(server, call, wanted.value);
    const { tenantId, subject: by } = call.identity;
    const job = await server.jobs.create({ tenantId, by, asked: input.filter, ...wanted.value });
    return job === undefined ? refusal("too_many_jobs") : { ok: true, value: { job } };
  },
};

export const listJobs: Operation<undefined, readonly BulkJob[]> = {
  name: "list_jobs",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: ({ jobs }, call) => {
    const found = jobs.of(call.identity.tenantId);
    return { ok: true, value: found.map((job) => shownJob(call, job)) };
  },
};

export const getJob: Operation<JobInput, BulkJob> = {
  name: "get_job",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ id }) => id },
  run: ({ jobs }, call, { id }) => {
    const job = jobs.find(call.identity.tenantId, id);
    return job === undefined ? refusal("job_not_found") : { ok: true, value: shownJob(call, job) };
  },
};

export interface JobInput {
  readonly id: string;
}

export const pauseJob: Operation<JobInput, BulkJob> = change("pause_job", "paused");
export const resumeJob: Operation<JobInput, BulkJob> = change("resume_job", "running");
export const abortJob: Operation<JobInput, BulkJob> = change("abort_job", "aborted");

function change(
  name: string,
  state: "running" | "paused" | "aborted",
): Operation<JobInput, BulkJob> {
  const audit: AuditRule<JobInput, BulkJob> = { of: "all", target: ({ id }) => id };
  const run = async ({ jobs }: Server, call: Call, { id }: JobInput): Promise<Answer<BulkJob>> => {
    const job = jobs.find(call.identity.tenantId, id);
    if (job === undefined) return refusal("job_not_found");
    const changed = await jobs.set(job, state);
    return changed === undefined
      ? refusal("job_has_ended")
      : { ok: true, value: shownJob(call, changed) };
  };
  return { name, access: "admin", scope: undefined, rate, audit, run };
}

interface Wanted {
  readonly action: JobAction;
  readonly filter: TaskFilter;
  readonly perSecond: number;
  readonly canary: Canary | undefined;
}

function wantedOf(server: Server, input: CreateJobInput): Answer<Wanted> {
  const read = readFilter(input.filter);
  if (!read.ok) return read;
  const isFiltered = Object.keys(read.value).length > 0;
  if (isFiltered === input.isAll) {
    return refusal("invalid_argument", "give either a filter or 'all': true");
  }
  const action = actionOf(input);
  if (!action.ok) return action;
  const filter = filterOf(action.value, read.value, server.clock.nowMs());
  if (!filter.ok) return filter;
  const { ratePerSecond: perSecond = limits.jobRateDefault } = input;
  if (!isWithin(perSecond, 1, limits.jobRateMax)) {
    return refusal("invalid_argument", `invalid 'ratePerSecond' (1 to ${limits.jobRateMax})`);
  }
  const canary = canaryOf(action.value, input.canary);
  if (!canary.ok) return canary;
  const value = { action: action.value, filter: filter.value, perSecond, canary: canary.value };
  return { ok: true, value };
}

function actionOf({ action, graceSeconds, moveTo }: CreateJobInput): Answer<JobAction> {
  if (graceSeconds !== undefined && action !== "cancel") {
    return refusal("invalid_argument", "'graceSeconds' is for action cancel");
  }
  if (moveTo !== undefined && action !== "move") {
    return refusal("invalid_argument", "'moveTo' is for action move");
  }
  switch (action) {
    case "replay":
    case "delete":
      return { ok: true, value: { kind: action } };
    case "cancel":
      return cancelOf(graceSeconds);
    case "move":
      return moveOf(moveTo);
    default:
      return refusal("invalid_argument", "invalid 'action' (use replay, delete, cancel or move)");
  }
}

function moveOf(command: string | undefined): Answer<JobAction> {
  if (command === undefined) {
    return refusal("invalid_argument", "'moveTo' is missing: the queue that the tasks go to");
  }
  if (!limits.commandPattern.test(command)) return refusal("invalid_command");
  return { ok: true, value: { kind: "move", command } };
}

function cancelOf(graceSeconds: number | undefined): Answer<JobAction> {
  const seconds = graceSeconds ?? limits.cancelGraceSecondsDefault;
  const max = limits.cancelGraceSecondsMax;
  if (!isWithin(seconds, 0, max)) {
    return refusal("invalid_argument", `invalid 'graceSeconds' (0 to ${max})`);
  }
  return { ok: true, value: { kind: "cancel", graceMs: seconds * 1000 } };
}

const places = {
  replay: ["dead"],
  delete: ["dead", "done", "failed"],
  cancel: ["ready", "delayed", "leased"],
  move: ["ready", "delayed"],
} as const;

/** Only what was there when the job was begun. */
function filterOf({ kind }: JobAction, given: TaskFilter, nowMs: number): Answer<TaskFilter> {
  const known: readonly string[] = places[kind];
  if (given.place !== undefined && !known.includes(given.place)) {
    return refusal("invalid_argument", `invalid 'place': ${kind} is for ${known.join(", ")}`);
  }
  const isOpen = kind === "cancel" || kind === "move";
  const place = given.place ?? (isOpen ? undefined : "dead");
  const createdToMs = Math.min(given.createdToMs ?? Number.MAX_SAFE_INTEGER, nowMs + 1);
  return { ok: true, value: { ...given, place, createdToMs } };
}

function canaryOf({ kind }: JobAction, given: GivenCanary | undefined): Answer<Canary | undefined> {
  if (given === undefined) return { ok: true, value: undefined };
  if (kind !== "replay") return refusal("invalid_argument", "'canary' is for action replay");
  const canary: Canary = {
    first: given.first ?? canaryDefault.first,
    factor: given.factor ?? canaryDefault.factor,
    failurePercentMax: given.failurePercentMax ?? canaryDefault.failurePercentMax,
  };
  if (!isWithin(canary.first, 1, 1000)) {
    return refusal("invalid_argument", "invalid 'canary.first' (1 to 1000)");
  }
  if (!isWithin(canary.factor, 1, 100)) {
    return refusal("invalid_argument", "invalid 'canary.factor' (1 to 100)");
  }
  if (!isWithin(canary.failurePercentMax, 0, 100)) {
    return refusal("invalid_argument", "invalid 'canary.failurePercentMax' (0 to 100)");
  }
  return { ok: true, value: canary };
}

function isWithin(value: number, min: number, max: number): boolean {
  return value >= min && value <= max;
}

async function count(
  { queue }: Server,
  call: Call,
  { action, filter }: Wanted,
): Promise<Answer<CreatedJob>> {
  const wanted = { tenantId: call.identity.tenantId, filter, order: "oldest" } as const;
  let matched = 0;
  let after: string | undefined = "";
  for (let page = 0; page < countedPagesMax && after !== undefined; page++) {
    const found = await queue.find({ ...wanted, after, limit: countedTasks });
    if (found === undefined) return refusal("overloaded");
    matched += found.tasks.filter((task) => isMeant(task, action)).length;
    after = found.next;
  }
  return { ok: true, value: { matched, hasMore: after !== undefined } };
}

/** The job without the part of its filter that says what is in payloads, if the caller must not see them. */
function shownJob({ identity }: Pick<Call, "identity">, job: BulkJob): BulkJob {
  if (!identity.hidesPayloads || job.asked["payload"] === undefined) return job;
  const { payload, ...asked } = job.asked;
  return { ...job, asked };
}
