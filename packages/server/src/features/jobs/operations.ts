/** Bulk jobs of the caller's tenant: start, show, pause, resume and abort. */
import { limits } from "@codeq/protocol";
import { api, type Job, type KeptOf } from "@codeq/protocol/api";
import type { TaskFilter } from "../../core/search/task-filter.ts";
import { bind, type InputOf } from "../../edge/bind.ts";
import { problemOfSearch } from "../../edge/hidden-payloads.ts";
import { type Answer, type Call, refusal, type Server } from "../../edge/operation.ts";
import { conditionsOf, describeFilter, readFilter } from "../../edge/task-filter-input.ts";
import type { NewJob } from "./bulk-jobs.ts";
import { countByCounters, countPage } from "./count-tasks.ts";
import type { BulkJob, Canary, JobAction } from "./job-record.ts";

type Input = InputOf<typeof api.jobs.createJob>;

const countedPagesMax = 20;

export const createJob = bind(api.jobs.createJob, {
  run: async (server, call, input): Promise<Answer<BulkJob | Counted>> => {
    const hidden = problemOfSearch(call, input);
    if (hidden !== undefined) return hidden;
    const wanted = wantedOf(server, input);
    if (!wanted.ok) return wanted;
    if (input.isDryRun) return count(server, call, wanted.value, input.after);
    const { tenantId, subject: by } = call.identity;
    const { perSecond } = input;
    if (input.after !== undefined) {
      return refusal("invalid_argument", "'after' is for a dry run");
    }
    const asked = conditionsOf(input);
    const { counted, ...given } = wanted.value;
    const total = await countByCounters(server.broker, { tenantId, ...given, filter: counted });
    const job = await server.jobs.create({ tenantId, by, asked, perSecond, total, ...given });
    return job === undefined ? refusal("too_many_jobs") : { ok: true, value: job };
  },
  audit: {
    target: ({ isAll, isDryRun, ...input }) =>
      `${isDryRun ? "dry run: " : ""}${input.action} ${isAll ? "all" : describeFilter(input)}`,
    detail: (created) => ("id" in created ? created.id : `${created.matched} tasks`),
  },
  show: (created) =>
    "id" in created ? { status: 201, value: shownJob(created) } : { status: 200, value: created },
});

export const listJobs = bind(api.jobs.listJobs, {
  run: ({ jobs }, call) => {
    const found = jobs.of(call.identity.tenantId);
    return { ok: true, value: { jobs: found.map((job) => jobFor(call, job)) } };
  },
});

export const getJob = bind(api.jobs.getJob, {
  run: ({ jobs }, call, { id }) => {
    const job = jobs.find(call.identity.tenantId, id);
    return job === undefined ? refusal("job_not_found") : { ok: true, value: jobFor(call, job) };
  },
});

const changing = (state: "running" | "paused" | "aborted") => ({
  run: async ({ jobs }: Server, call: Call, { id }: { readonly id: string }) => {
    const job = jobs.find(call.identity.tenantId, id);
    if (job === undefined) return refusal("job_not_found");
    const changed = await jobs.set(job, state);
    if (changed === undefined) return refusal("job_has_ended");
    return { ok: true, value: jobFor(call, changed) } as const;
  },
});

export const pauseJob = bind(api.jobs.pauseJob, changing("paused"));
export const resumeJob = bind(api.jobs.resumeJob, changing("running"));
export const abortJob = bind(api.jobs.abortJob, changing("aborted"));

interface Wanted extends Pick<NewJob, "action" | "filter" | "canary"> {
  /** The filter without the moment at which the job begins, for counters. */
  readonly counted: TaskFilter;
}

function wantedOf({ clock }: Server, input: Input): Answer<Wanted> {
  const read = readFilter(input);
  if (!read.ok) return read;
  const isFiltered = Object.keys(read.value).length > 0;
  if (isFiltered === input.isAll) {
    return refusal("invalid_argument", "give either a filter or 'all': true");
  }
  const action = actionOf(input);
  if (!action.ok) return action;
  const filter = filterOf(input.action, read.value, clock.nowMs());
  if (!filter.ok) return filter;
  if (input.isCanary && input.action !== "replay") {
    return refusal("invalid_argument", "'canary' is for action replay");
  }
  const canary = input.isCanary ? canaryOf(input) : undefined;
  const counted = { ...filter.value, createdToMs: read.value.createdToMs };
  return { ok: true, value: { action: action.value, filter: filter.value, canary, counted } };
}

function actionOf({ action, graceSeconds, moveTo }: Input): Answer<JobAction> {
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
    case "cancel": {
      const seconds = graceSeconds ?? limits.cancelGraceSecondsDefault;
      return { ok: true, value: { kind: action, graceMs: seconds * 1000 } };
    }
    case "move":
      return moveOf(moveTo);
  }
}

function moveOf(command: string | undefined): Answer<JobAction> {
  if (command === undefined) {
    return refusal("invalid_argument", "'moveTo' is missing: the queue that the tasks go to");
  }
  if (!limits.commandPattern.test(command)) return refusal("invalid_command");
  return { ok: true, value: { kind: "move", command } };
}

const places = {
  replay: ["failure", "dead", "failed"],
  delete: ["failure", "dead", "failed", "cancelled", "done"],
  cancel: ["ready", "delayed", "held", "leased"],
  move: ["ready", "delayed"],
} as const;

/** Only what was there when the job was begun. */
function filterOf(action: Input["action"], given: TaskFilter, nowMs: number): Answer<TaskFilter> {
  const known: readonly string[] = places[action];
  if (given.place !== undefined && !known.includes(given.place)) {
    return refusal("invalid_argument", `invalid 'place': ${action} is for ${known.join(", ")}`);
  }
  const isOpen = action === "cancel" || action === "move";
  const place = given.place ?? (isOpen ? undefined : "failure");
  const createdToMs = Math.min(given.createdToMs ?? Number.MAX_SAFE_INTEGER, nowMs + 1);
  return { ok: true, value: { ...given, place, createdToMs } };
}

function canaryOf({ canaryFirst, canaryFactor, canaryFailurePercent }: Input): Canary {
  return { first: canaryFirst, factor: canaryFactor, failurePercent: canaryFailurePercent };
}

export interface Counted {
  readonly matched: number;
  readonly hasMore: boolean;
  readonly next: string | undefined;
}

async function count(
  { broker }: Server,
  call: Call,
  { action, filter, counted }: Wanted,
  first = "",
): Promise<Answer<Counted>> {
  const { tenantId } = call.identity;
  if (first === "") {
    const known = await countByCounters(broker, { tenantId, action, filter: counted });
    if (known !== undefined) {
      return { ok: true, value: { matched: known, hasMore: false, next: undefined } };
    }
  }
  let matched = 0;
  let next: string | undefined = first;
  for (let pages = 0; pages < countedPagesMax && next !== undefined; pages++) {
    const page = await countPage(broker, { tenantId, action, filter }, next);
    if (page === undefined) return refusal("overloaded");
    matched += page.matched;
    next = page.next;
  }
  return { ok: true, value: { matched, hasMore: next !== undefined, next } };
}

type ShownJob = KeptOf<typeof Job>;

/** The job without the part of its filter that says what is in payloads, if the caller must not see them. */
function jobFor({ identity }: Call, job: BulkJob): ShownJob {
  const { payload, ...asked } = job.asked;
  return shownJob(identity.hidesPayloads ? { ...job, asked } : job);
}

function shownJob(whole: BulkJob): ShownJob {
  const { action, canary, piece, ...job } = whole;
  const stage = piece?.isActedOn === true ? { ...piece, waiting: piece.ids.length } : undefined;
  return {
    ...job,
    action: action.kind,
    moveTo: action.kind === "move" ? action.command : undefined,
    canary: canary && { ...canary, stage },
    etaSeconds: etaOf(whole),
  };
}

/** A canary waits for outcomes, so its end is not known. */
function etaOf(job: BulkJob): number | undefined {
  const { total, changed, failed, perSecond, workedMs } = job;
  if (job.state !== "running" || job.canary !== undefined || total === undefined) return undefined;
  const done = changed + failed;
  const left = Math.max(0, total - done);
  return Math.ceil(done === 0 ? left / perSecond : (left * workedMs) / done / 1000);
}
