/** Tasks that come back: `client.schedules`. */
import { type AskApi, answerWith, call, pages } from "../api-calls.ts";
import type {
  BulkJob,
  PlannedRun,
  Schedule,
  ScheduleBody,
  ScheduleExplanation,
  ScheduleRun,
} from "../api-types.ts";
import { CodeqError } from "../codeq-error.ts";
import { type Duration, inWords, toMs, toSeconds } from "../duration.ts";
import { uniqueOf } from "../http/create-body.ts";
import { laneFields, payloadOf, storedPayload, uniqueFields } from "../producer/enqueue-options.ts";
import { definitionOf, type TaskType, type UniqueOptions } from "../task.ts";

/** When a schedule fires. */
export interface ScheduleTimes {
  /** Five fields (minute, hour, day, month, weekday), or six with seconds in front: `"0 9 * * MON-FRI"`. */
  readonly cron?: string | undefined;
  /** Instead of `cron`: elapsed time, at least one second. */
  readonly every?: Duration | undefined;
  /** With `every`: how much later than 1970-01-01T00:00Z the counting begins. */
  readonly offset?: Duration | undefined;
  /** The IANA time zone of `cron` and `except`. Default: `"UTC"`. */
  readonly tz?: string | undefined;
  /** Nothing fires before. */
  readonly from?: Date | number | undefined;
  /** Nothing fires after. */
  readonly until?: Date | number | undefined;
  /** Local dates (`"2026-12-25"`) and cron expressions at which nothing fires; at most 8. */
  readonly except?: readonly string[] | undefined;
}

/** What a schedule does when it fires. */
export interface ScheduleSettings extends ScheduleTimes {
  /** Tasks to create in all. Default: any number. */
  readonly times?: number | undefined;
  /** What happens while a task of the schedule has not ended. Default: `"skip"`. */
  readonly overlap?: "allow" | "skip" | "one" | "replace" | undefined;
  /** With `overlap: "replace"`: how long the worker of the cancelled task gets to stop. Default: `"30s"`. */
  readonly grace?: Duration | undefined;
  /** What happens after down time. Default: `"latest"`. */
  readonly catchUp?: "none" | "latest" | "all" | undefined;
  /** How late a task may be created. */
  readonly within?: Duration | undefined;
  /** Tasks are created up to so much later, always the same for the same schedule. */
  readonly spread?: Duration | undefined;
  /** Pauses the schedule after so many failed tasks in a row. */
  readonly pauseAfterFailures?: number | undefined;
  /** 0 to 9, higher first. Default: the priority of the task. */
  readonly priority?: number | undefined;
  /** Attempts before a task becomes a dead letter. Default: the number of the task. */
  readonly maxAttempts?: number | undefined;
  /** How long a worker may take for one attempt, in whole seconds. */
  readonly executionTimeout?: Duration | undefined;
  /** How long a task may wait for a worker, in whole seconds. */
  readonly ttl?: Duration | undefined;
  /** Labels of the tasks. */
  readonly tags?: readonly string[] | undefined;
  /** One task at a time for a key; an instant that meets another task is skipped. Default: the `unique` of the task. */
  readonly unique?: UniqueOptions | undefined;
  /** What limits, rates and fair shares of the queue apply to. Default: the `lane` of the task. */
  readonly lane?: string | undefined;
  /** Units of rates and fair shares. Default: the `cost` of the task. */
  readonly cost?: number | undefined;
  /** The server posts the results there. */
  readonly webhook?: string | undefined;
}

/** What `put` takes beside the id and the task. */
export interface PutScheduleOptions<Input> extends ScheduleSettings {
  /** What the handler gets, every time. */
  readonly input?: Input;
  /** Refused unless the schedule has this version; 0 for a new schedule. */
  readonly ifVersion?: number | undefined;
}

/** One of the schedules of `sync`. */
export interface SyncedSchedule extends ScheduleSettings {
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: schedules of different tasks stand in one list.
  readonly task: TaskType<any, any>;
  readonly input?: unknown;
}

/** What `sync` did, by the ids of the schedules. */
export interface SyncOutcome {
  readonly created: readonly string[];
  readonly changed: readonly string[];
  readonly unchanged: readonly string[];
  readonly deleted: readonly string[];
}

/** Which nominal instants of the past get tasks. */
export interface BackfillOptions {
  readonly from: Date | number;
  readonly until: Date | number;
  /** Tasks a second. Default: 100. */
  readonly ratePerSecond?: number | undefined;
}

/**
 * Schedules of the tenant; the token has to be an administrator's.
 *
 * ```ts
 * await client.schedules.put("digest-acme", digest, {
 *   input: { customer: "acme" },
 *   cron: "0 9 * * MON-FRI",
 *   tz: "Europe/Paris",
 * });
 * ```
 */
export class Schedules {
  readonly #api: AskApi;

  /** @internal Use `client.schedules`. */
  constructor(api: AskApi) {
    this.#api = api;
  }

  /** Creates a schedule or changes it. The same call again changes nothing. */
  async put<Input, Output>(
    id: string,
    task: TaskType<Input, Output>,
    options: PutScheduleOptions<NoInfer<Input>>,
  ): Promise<Schedule> {
    const { input, ifVersion, ...settings } = options;
    const body = await bodyOf(task, input, settings);
    const query = ifVersion === undefined ? {} : { ifVersion };
    return await call(this.#api, "PUT /admin/schedules/:id", { params: { id }, query, body });
  }

  /** All schedules in the order of their ids, or those whose ids begin with `prefix`. */
  list(options: { readonly prefix?: string } = {}): AsyncGenerator<Schedule, void, undefined> {
    return pages(this.#api, "GET /admin/schedules", options);
  }

  /** A schedule; rejects with `schedule_not_found`. */
  get(id: string): Promise<Schedule> {
    return call(this.#api, "GET /admin/schedules/:id", { params: { id } });
  }

  /** Deletes a schedule; its tasks stay. */
  async delete(id: string): Promise<void> {
    await call(this.#api, "DELETE /admin/schedules/:id", { params: { id } });
  }

  /** Creates nothing until the schedule is resumed. */
  pause(id: string, reason = ""): Promise<Schedule> {
    const given = { params: { id }, body: { reason } };
    return call(this.#api, "POST /admin/schedules/:id/pause", given);
  }

  /** Goes on; what was due during the pause is skipped. */
  resume(id: string): Promise<Schedule> {
    return call(this.#api, "POST /admin/schedules/:id/resume", { params: { id } });
  }

  /** Creates a task now, and gives its id; the plan does not change. */
  async runNow(id: string): Promise<string> {
    return (await call(this.#api, "POST /admin/schedules/:id/run", { params: { id } })).taskId;
  }

  /** What the schedule did: its tasks, and the last skips with their reasons, the newest first. */
  async runs(id: string, limit = 100): Promise<readonly ScheduleRun[]> {
    const given = { params: { id }, query: { limit } };
    return (await call(this.#api, "GET /admin/schedules/:id/runs", given)).runs;
  }

  /** Why the schedule did or did not run at an instant, or at a local time such as `"2026-03-29T02:30"`. */
  explain(id: string, at: Date | string): Promise<ScheduleExplanation> {
    const query = { at: typeof at === "string" ? at : at.toISOString() };
    return call(this.#api, "GET /admin/schedules/:id/explain", { params: { id }, query });
  }

  /** The next instants of a spec, with what is special about them. Nothing is stored. */
  async preview(spec: ScheduleTimes, count = 10): Promise<readonly PlannedRun[]> {
    const body = { ...timesOf(spec), count };
    return (await call(this.#api, "POST /admin/schedules/preview", { body })).runs;
  }

  /** Starts a bulk job that creates tasks for nominal instants of the past that have none. */
  async backfill(id: string, options: BackfillOptions): Promise<BulkJob> {
    const given = { params: { id }, body: spanOf(options) };
    return answerWith("state", await call(this.#api, "POST /admin/schedules/:id/backfill", given));
  }

  /** How many tasks such a backfill would create. */
  async countBackfill(id: string, options: BackfillOptions): Promise<number> {
    const given = { params: { id }, body: { ...spanOf(options), dryRun: true } };
    const answer = await call(this.#api, "POST /admin/schedules/:id/backfill", given);
    return answer.matched;
  }

  /**
   * Makes the schedules whose ids begin with `prefix` exactly these: puts each, and deletes what is gone. For a step
   * of a deployment; the same list again changes nothing.
   *
   * ```ts
   * await client.schedules.sync("billing-", [
   *   { id: "billing-invoices", task: invoices, cron: "0 6 1 * *", tz: "Europe/Paris" },
   *   { id: "billing-reminders", task: reminders, every: "1h" },
   * ]);
   * ```
   */
  async sync(prefix: string, wanted: readonly SyncedSchedule[]): Promise<SyncOutcome> {
    const ids = new Set(wanted.map(({ id }) => id));
    const stray = wanted.find(({ id }) => !id.startsWith(prefix));
    if (prefix === "" || stray !== undefined || ids.size < wanted.length) {
      const why =
        stray === undefined
          ? "needs a prefix and different ids"
          : `${stray.id} does not begin with ${prefix}`;
      throw new CodeqError("invalid_option", `sync ${why}; nothing was changed`);
    }
    // Every input is checked before anything is changed.
    const bodies = await Promise.all(
      wanted.map(async ({ id, task, input, ...settings }) => ({
        id,
        body: await bodyOf(task, input, settings),
      })),
    );
    const before = new Map<string, number>();
    for await (const { id, version } of this.list({ prefix })) before.set(id, version);
    const outcome = { created: [] as string[], changed: [] as string[], unchanged: [] as string[] };
    for (const { id, body } of bodies) {
      const put = await call(this.#api, "PUT /admin/schedules/:id", { params: { id }, body });
      const known = before.get(id);
      if (known === undefined) outcome.created.push(id);
      else (known === put.version ? outcome.unchanged : outcome.changed).push(id);
    }
    const deleted = [...before.keys()].filter((id) => !ids.has(id));
    for (const id of deleted) await this.delete(id);
    return { ...outcome, deleted };
  }
}

async function bodyOf(
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  task: TaskType<any, any>,
  input: unknown,
  settings: ScheduleSettings,
): Promise<ScheduleBody> {
  const definition = definitionOf(task);
  const plain = await payloadOf(definition, input);
  // Without a salt, so that the same put again changes nothing.
  const payload: unknown = JSON.parse(await storedPayload(definition, plain, ""));
  const shared = uniqueFields(settings.unique ?? definition.unique, plain);
  const { lane, cost } = laneFields(definition, settings, plain);
  const { priority = definition.priority, maxAttempts = definition.maxAttempts } = settings;
  const { times, overlap, catchUp, within, spread, pauseAfterFailures, tags, webhook } = settings;
  const { grace, executionTimeout, ttl } = settings;
  return {
    command: definition.name,
    payload,
    priority,
    maxAttempts,
    webhook,
    tags,
    unique: shared.uniqueKey === "" ? undefined : uniqueOf(shared),
    lane: lane === "" ? undefined : lane,
    cost: cost === 0 ? undefined : cost,
    timeoutSeconds: secondsOf(executionTimeout, "executionTimeout"),
    ttlSeconds: secondsOf(ttl, "ttl"),
    ...timesOf(settings),
    times,
    overlap,
    graceSeconds: secondsOf(grace, "grace"),
    catchUp,
    within: textOf(within, "within"),
    spread: textOf(spread, "spread"),
    pauseAfterFailures,
  };
}

function timesOf({ cron, every, offset, tz, from, until, except }: ScheduleTimes) {
  return {
    cron,
    every: textOf(every, "every"),
    offset: textOf(offset, "offset"),
    tz,
    from: from === undefined ? undefined : momentOf(from, "from"),
    until: until === undefined ? undefined : momentOf(until, "until"),
    except,
  };
}

function spanOf({ from, until, ratePerSecond }: BackfillOptions) {
  return { from: momentOf(from, "from"), until: momentOf(until, "until"), ratePerSecond };
}

function textOf(duration: Duration | undefined, what: string): string | undefined {
  return duration === undefined ? undefined : inWords(toMs(duration, what));
}

function secondsOf(duration: Duration | undefined, what: string): number | undefined {
  return duration === undefined ? undefined : toSeconds(toMs(duration, what));
}

function momentOf(moment: Date | number, what: string): string {
  const ms = Number(moment);
  if (Number.isFinite(ms)) return new Date(ms).toISOString();
  const rule = "give a Date, or milliseconds since 1970";
  throw new CodeqError("invalid_option", `invalid ${what} ${String(moment)}: ${rule}`);
}
