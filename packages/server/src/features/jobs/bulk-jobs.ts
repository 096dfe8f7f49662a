/**
 * Bulk jobs: replay, delete, cancel or move all tasks that match a filter, at a limited rate. A job is a
 * record, so it survives restarts, and no task is changed twice by it: a piece is written down before it is
 * begun, and a task remembers the job that replayed it. In a cluster every node knows the jobs, and
 * the one in charge does their work.
 *
 *   running  leaves by pause, abort, its end, or because too much of a canary failed again
 *   paused   leaves by resume or abort
 *   done, aborted, stopped  are left by nothing; the record is removed when there are too many
 */
import { FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import type { TaskId, TenantId } from "@codeq/queue";
import type { Broker } from "../../core/broker/broker.ts";
import type { Clock } from "../../core/clock.ts";
import { type ControlRecords, changeIn, idIn } from "../../core/control/control-records.ts";
import type { ControlListener, ControlStore } from "../../core/control/control-store.ts";
import type { Acted, TaskAction } from "../../core/search/task-actions.ts";
import type { RecordText } from "../../core/store/store.ts";
import type { Job } from "../../core/sweeps/ticker.ts";
import { type RandomBytes, TaskIds } from "../../core/task-ids.ts";
import { type AuditEvent, auditEventOf } from "../../edge/audit/audit-record.ts";
import type { ConnectedWorkers } from "../../edge/connected-workers.ts";
import { countPage } from "./count-tasks.ts";
import {
  type BulkJob,
  expectedJob,
  isMeant,
  type JobAction,
  type JobPiece,
  jobRecords,
  removalOfJob,
  writeOfJob,
} from "./job-record.ts";

const pieceTasks = 200;
const stageTasksMax = 1000;
const failuresKept = 100;
const leftMax = 100_000;
/** How often outcomes of a canary are looked for, and how soon after a fault a job goes on. */
const lookMs = 1000;

export type NewJob = Pick<
  BulkJob,
  "tenantId" | "action" | "filter" | "asked" | "perSecond" | "canary" | "by" | "total"
>;

interface BulkJobsParts {
  readonly store: ControlStore;
  readonly broker: Broker;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly workers: Pick<ConnectedWorkers, "sendCancelled">;
}

export class BulkJobs implements ControlListener {
  /** Called when there is something to do. */
  onPlanned: () => void = () => {};
  /** Called with a job that has ended, once that is durable. */
  onEnded: (job: BulkJob) => Promise<void> = () => Promise.resolve();
  readonly #store: ControlStore;
  readonly #broker: Broker;
  readonly #clock: Clock;
  readonly #workers: BulkJobsParts["workers"];
  readonly #ids: TaskIds;
  readonly #jobs: Map<string, BulkJob> = new Map();
  /** On the monotonic clock, when each running job goes on. */
  readonly #dueMs: Map<string, number> = new Map();
  /** Pieces that a process before this one may have done in part. */
  readonly #resumed: Set<string> = new Set();
  /** New jobs that are not stored yet. */
  #beingWritten = 0;

  private constructor(parts: BulkJobsParts) {
    this.#store = parts.store;
    this.#broker = parts.broker;
    this.#clock = parts.clock;
    this.#workers = parts.workers;
    this.#ids = new TaskIds(parts.randomBytes);
  }

  static async open(parts: BulkJobsParts): Promise<BulkJobs> {
    const jobs = new BulkJobs(parts);
    await parts.store.listen(jobs);
    return jobs;
  }

  changed(write: RecordText): void {
    const change = changeIn(jobRecords, write);
    if (change === undefined) return;
    const job = change.record;
    const id = idIn(change.name);
    if (job === undefined) {
      this.#jobs.delete(id);
      this.#dueMs.delete(id);
      return;
    }
    const wasRunning = this.#jobs.get(job.id)?.state === "running";
    this.#jobs.set(job.id, job);
    if (job.state !== "running") this.#dueMs.delete(job.id);
    else if (!wasRunning) {
      this.#plan(job.id, 0);
      this.onPlanned();
    }
  }

  async load(records: ControlRecords): Promise<void> {
    this.#jobs.clear();
    this.#dueMs.clear();
    for await (const job of records.all(jobRecords)) this.#jobs.set(job.id, job);
    this.takeCharge();
  }

  takeCharge(): void {
    for (const { id, piece } of this.#jobs.values()) {
      if (piece?.isActedOn === false) this.#resumed.add(id);
      this.#plan(id, 0);
    }
    this.onPlanned();
  }

  /** The newest first. */
  of(tenantId: TenantId): readonly BulkJob[] {
    const found = [...this.#jobs.values()].filter((job) => job.tenantId === tenantId);
    return found.sort((one, other) => (one.id < other.id ? 1 : -1));
  }

  find(tenantId: TenantId, id: string): BulkJob | undefined {
    const job = this.#jobs.get(id);
    return job?.tenantId === tenantId ? job : undefined;
  }

  /** Undefined when the tenant has too many that have not ended. */
  async create(wanted: NewJob): Promise<BulkJob | undefined> {
    const others = this.of(wanted.tenantId);
    const ended = others.filter((job) => !isOpen(job));
    const open = others.length - ended.length + this.#beingWritten;
    if (open >= limits.openJobsPerTenantMax) return undefined;
    const nowMs = this.#clock.nowMs();
    const job: BulkJob = {
      id: this.#ids.next(nowMs),
      ...wanted,
      createdMs: nowMs,
      updatedMs: nowMs,
      state: "running",
      reason: "",
      after: "",
      isLookedThrough: false,
      piece: undefined,
      counted: 0,
      countedTo: "",
      workedMs: 0,
      matched: 0,
      changed: 0,
      failed: 0,
      failures: [],
    };
    const old = ended.slice(limits.endedJobsPerTenantMax - 1);
    this.#beingWritten += 1;
    try {
      await this.#store.commit([writeOfJob(job), ...old.map(removalOfJob)]);
    } finally {
      this.#beingWritten -= 1;
    }
    return job;
  }

  /** Undefined when it has ended, or is so already. */
  async set(
    job: BulkJob,
    state: "running" | "paused" | "aborted",
    reason = "",
  ): Promise<BulkJob | undefined> {
    const changed = await this.#update(job.id, (current) =>
      isOpen(current) ? { state, reason } : undefined,
    );
    if (changed !== undefined && state === "aborted") await this.onEnded(changed);
    return changed;
  }

  /** When something is to be done, on the monotonic clock; undefined while no job runs. */
  get dueMs(): number | undefined {
    const isDue = this.#store.isInCharge && this.#dueMs.size > 0;
    return isDue ? Math.min(...this.#dueMs.values()) : undefined;
  }

  /** Does a piece of every job that is due. */
  async runDue(): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    for (const [id, dueMs] of [...this.#dueMs]) {
      if (dueMs > nowMs) continue;
      try {
        await this.#step(id);
      } catch (error) {
        if (!(error instanceof FaultError)) throw error;
        // A shard is away or a disk is full: what was not done is done later, and some of it may have been.
        if (this.#jobs.get(id)?.piece?.isActedOn === false) this.#resumed.add(id);
        if (this.#dueMs.has(id)) this.#plan(id, lookMs);
      }
    }
  }

  async #step(id: string): Promise<void> {
    const job = this.#jobs.get(id);
    // The job may have been paused or aborted while earlier jobs ran.
    if (job?.state !== "running") return;
    const { piece } = job;
    if (piece === undefined) {
      if (job.total === undefined && job.action.kind !== "backfill") return this.#count(job);
      return job.isLookedThrough ? this.#end(job, { state: "done" }) : this.#take(job);
    }
    if (!piece.isActedOn) return this.#act(job, piece);
    return this.#look(job, piece);
  }

  /** Counts before the first task is changed, where no counter knew how many tasks match. */
  async #count(job: BulkJob): Promise<void> {
    const page = await countPage(this.#broker, job, job.countedTo);
    if (page === undefined) {
      this.#plan(job.id, lookMs);
      return;
    }
    const counted = job.counted + page.matched;
    const { next } = page;
    await this.#advance(
      job,
      next === undefined ? { total: counted } : { counted, countedTo: next },
    );
    this.#plan(job.id, 0);
  }

  /** Writes down which tasks are next. */
  async #take(job: BulkJob): Promise<void> {
    const { tenantId, filter, after, canary, action } = job;
    if (action.kind === "backfill") return this.#takeInstants(job, action);
    const limit =
      canary === undefined ? Math.min(pieceTasks, job.perSecond) : stageSize(job, canary);
    const page = await this.#broker.find({ tenantId, filter, order: "oldest", after, limit });
    if (page === undefined) {
      this.#plan(job.id, lookMs);
      return;
    }
    const ids = page.tasks.filter((task) => isMeant(task, job.action)).map(({ id }) => id);
    const matched = job.matched + ids.length;
    const isLookedThrough = page.next === undefined;
    await this.#advance(job, {
      after: page.next ?? after,
      isLookedThrough,
      matched,
      // Tasks may have left since they were counted, or come.
      total: isLookedThrough ? matched : Math.max(job.total ?? 0, matched),
      piece: ids.length === 0 ? undefined : pieceOf(ids),
    });
    this.#plan(job.id, 0);
  }

  /** The same for a backfill: nominal instants that have no task. */
  async #takeInstants(job: BulkJob, { schedule: id, fromMs, untilMs }: Backfill): Promise<void> {
    const { tenantId, after } = job;
    const afterMs = after === "" ? fromMs - 1 : Number(after);
    const limit = Math.min(pieceTasks, job.perSecond);
    const found = await this.#broker.schedules.missing(
      { tenantId, id },
      { afterMs, untilMs, limit },
    );
    const ids = found.instants.map((ms) => String(ms) as TaskId);
    const matched = job.matched + ids.length;
    const isLookedThrough = found.nextMs === undefined;
    await this.#advance(job, {
      after: String(found.nextMs ?? untilMs),
      isLookedThrough,
      matched,
      total: isLookedThrough ? matched : undefined,
      piece: ids.length === 0 ? undefined : pieceOf(ids),
    });
    this.#plan(job.id, 0);
  }

  async #actOn(job: BulkJob, ids: readonly TaskId[]): Promise<readonly (Acted | Created)[]> {
    const { tenantId, action } = job;
    if (action.kind !== "backfill") {
      const wanted = actionOf(action, job);
      return Promise.all(ids.map((id) => this.#broker.act({ tenantId, id }, wanted)));
    }
    const of = { tenantId, id: action.schedule };
    const created = await this.#broker.schedules.backfill(of, ids.map(Number));
    return created.map((code) =>
      // An instant without a task got one since it was taken: from the process before this one.
      code === "created" || code === "already_ran" ? { ok: true } : { ok: false, code },
    );
  }

  async #act(job: BulkJob, { ids, size, before = [] }: JobPiece): Promise<void> {
    const startedMs = this.#clock.monotonicMs();
    const acted = await this.#actOn(job, ids);
    const wasBegun = this.#resumed.delete(job.id);
    const failures: { id: TaskId; code: string }[] = [];
    const changed: TaskId[] = [];
    const left: TaskId[] = [];
    for (const [at, answer] of acted.entries()) {
      const id = ids[at] as TaskId;
      this.#notifyWorker(job, answer);
      if (answer.ok || isDone(answer, job, wasBegun)) changed.push(id);
      else if (answer.code === "quota_exceeded") left.push(id);
      else failures.push({ id, code: answer.code === "task_unknown" ? "not_found" : answer.code });
    }
    const tookMs = this.#clock.monotonicMs() - startedMs;
    const paceMs = (size * 1000) / job.perSecond;
    const watched = job.canary === undefined ? [] : [...before, ...changed];
    await this.#advance(job, {
      piece: left.length > 0 ? { ...pieceOf(left), before: watched } : stageOf(watched),
      workedMs: job.workedMs + Math.max(tookMs, paceMs),
      changed: job.changed + changed.length,
      failed: job.failed + failures.length,
      failures: [...job.failures, ...failures].slice(0, failuresKept),
    });
    if (left.length > 0) await this.#pauseForQuota(job);
    this.#plan(job.id, Math.max(0, paceMs - (this.#clock.monotonicMs() - startedMs)));
  }

  async #pauseForQuota(job: BulkJob): Promise<void> {
    if (this.#jobs.get(job.id)?.state !== "running") return;
    const reason = "the quota of the tenant is reached; resume it when there is room";
    await this.set(job, "paused", reason);
  }

  /** At once, on its streams, that it should stop. */
  #notifyWorker({ action }: BulkJob, answer: Acted | Created): void {
    if (action.kind !== "cancel" || !answer.ok || !("task" in answer)) return;
    const { id, tenantId, place } = answer.task;
    if (place.in !== "leased") return;
    this.#workers.sendCancelled(tenantId, place.workerId, id);
  }

  /** Counts how the tasks of a stage ended. */
  async #look(job: BulkJob, piece: JobPiece): Promise<void> {
    const places = await this.#broker.placesOf(job.tenantId, piece.ids);
    const count = (...wanted: string[]): number =>
      places.filter((place) => wanted.includes(place)).length;
    const succeeded = piece.succeeded + count("done", "gone");
    const failedAgain = piece.failedAgain + count("dead", "failed", "cancelled");
    const ids = piece.ids.filter((_, at) =>
      ["ready", "delayed", "held", "leased"].includes(places[at] as string),
    );
    const { failurePercent } = job.canary ?? { failurePercent: 100 };
    const isTooMuch = (failedAgain * 100) / piece.size > failurePercent;
    if (isTooMuch) {
      const reason = `${failedAgain} of ${piece.size} replayed tasks failed again; ${await this.#left(job)}`;
      await this.#end(job, { state: "stopped", reason, piece: undefined });
      return;
    }
    const isOver = ids.length === 0;
    if (isOver || ids.length < piece.ids.length) {
      const left = { ...piece, ids, succeeded, failedAgain };
      await this.#advance(job, { piece: isOver ? undefined : left });
    }
    this.#plan(job.id, isOver ? 0 : lookMs);
  }

  /** What is left of the tasks that match. */
  async #left(job: BulkJob): Promise<string> {
    const { tenantId, filter } = job;
    const wanted = { tenantId, filter, order: "oldest", after: "", limit: leftMax } as const;
    const page = await this.#broker.find(wanted);
    if (page === undefined) return "the others are left";
    const more = page.next === undefined ? "" : "more than ";
    return `${more}${page.tasks.length} failures are left`;
  }

  /** Ends the job unless it was paused or aborted meanwhile. */
  async #end(job: BulkJob, ended: Partial<BulkJob>): Promise<void> {
    const written = await this.#update(job.id, (current) =>
      current.state === "running" && isSameStep(current, job) ? ended : undefined,
    );
    if (written !== undefined) await this.onEnded(written);
  }

  /**
   * Writes the progress of a step. The job may have been paused meanwhile: fields that are not given keep the value
   * that they have then. If another node has taken over the job, this step is discarded.
   */
  async #advance(job: BulkJob, changed: Partial<Omit<BulkJob, "state">>): Promise<void> {
    const written = await this.#update(job.id, (current) =>
      isSameStep(current, job) ? changed : undefined,
    );
    if (written === undefined) {
      throw new FaultError("not_leader", "another node goes on with the job");
    }
  }

  /** Undefined when there is nothing to change any more. */
  async #update(
    id: string,
    change: (current: BulkJob) => Partial<BulkJob> | undefined,
  ): Promise<BulkJob | undefined> {
    for (;;) {
      const current = this.#jobs.get(id);
      const changed = current === undefined ? undefined : change(current);
      if (current === undefined || changed === undefined) return undefined;
      const job = { ...current, ...changed, updatedMs: this.#clock.nowMs() };
      if (await this.#store.commit([writeOfJob(job)], [expectedJob(current)])) return job;
    }
  }

  /** Unless it was paused or has ended. */
  #plan(id: string, inMs: number): void {
    if (this.#jobs.get(id)?.state !== "running") return;
    this.#dueMs.set(id, this.#clock.monotonicMs() + inMs);
  }
}

/** What the audit trail says of a job that has ended. */
export function endOfJob({
  id,
  tenantId,
  by,
  state,
  reason,
  changed,
  matched,
}: BulkJob): AuditEvent {
  const why = reason === "" ? "" : `: ${reason}`;
  return {
    ...auditEventOf({}, { action: "end_job", outcome: "ok", target: id, tenantId }),
    subject: by,
    detail: `${state}, ${changed} of ${matched} tasks${why}`,
  };
}

function isOpen({ state }: BulkJob): boolean {
  return state === "running" || state === "paused";
}

/** Tasks that are to be changed next. */
function pieceOf(ids: readonly TaskId[]): JobPiece {
  return { ids, isActedOn: false, size: ids.length, succeeded: 0, failedAgain: 0 };
}

/** Tasks of a canary whose outcome is waited for. */
function stageOf(ids: readonly TaskId[]): JobPiece | undefined {
  return ids.length === 0 ? undefined : { ...pieceOf(ids), isActedOn: true };
}

function isSameStep(one: BulkJob, other: BulkJob): boolean {
  const step = ({ after, countedTo, total, piece }: BulkJob): string =>
    JSON.stringify([after, countedTo, total, piece]);
  return step(one) === step(other);
}

type Backfill = Extract<JobAction, { readonly kind: "backfill" }>;

/** Whether a task was created. */
type Created =
  | { readonly ok: true }
  | { readonly ok: false; readonly code: "schedule_not_found" | "quota_exceeded" };

function actionOf(action: Exclude<JobAction, Backfill>, { id }: BulkJob): TaskAction {
  switch (action.kind) {
    case "replay":
      return { kind: "replay", job: id };
    case "move":
      return { kind: "edit", edit: { command: action.command } };
    default:
      return action;
  }
}

/** Whether it was done before: by this job, as the task says, or by the process before this one. */
function isDone(
  answer: (Acted | Created) & { ok: false },
  { action }: BulkJob,
  wasBegun: boolean,
): boolean {
  if (answer.code === "already_done") return true;
  if (!wasBegun) return false;
  return (
    (action.kind === "delete" && answer.code === "task_unknown") ||
    (action.kind === "cancel" && answer.code === "has_ended") ||
    // A worker has it from the queue that it was moved to.
    (action.kind === "move" && answer.code === "not_waiting")
  );
}

function stageSize(
  { changed }: BulkJob,
  { first, factor }: { first: number; factor: number },
): number {
  // The stages so far were first, first x factor and so on: the next is what was done, times the factor.
  const next = changed === 0 ? first : Math.max(first, Math.ceil(changed * (factor - 1)) + first);
  return Math.min(stageTasksMax, next);
}

/**
 * Runs the next step of every bulk job that is due, in the background and one round at a time: a step may
 * wait long for a search, and other jobs of the server must not wait with it.
 */
export function runBulkJobs(jobs: BulkJobs): Job & { settle(): Promise<void> } {
  let running: Promise<void> | undefined;
  return {
    name: "run-bulk-jobs",
    nextMs: () => (running === undefined ? jobs.dueMs : undefined),
    runOnce: async () => {
      running = jobs.runDue().finally(() => {
        running = undefined;
        jobs.onPlanned();
      });
    },
    settle: async () => await running,
  };
}

declare module "../../edge/operation.ts" {
  interface Server {
    readonly jobs: BulkJobs;
  }
}
