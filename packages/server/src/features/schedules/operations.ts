/**
 * Schedules: what administrators and deploy steps ask for. The broker of the schedule's shard keeps and fires it;
 * everything that a request can get wrong is refused here, with what to do instead.
 */
import { limits } from "@codeq/protocol";
import { api, type Job, type KeptOf, type PlannedRun } from "@codeq/protocol/api";
import {
  durationMs,
  instantOf,
  queueOf,
  type SpecText,
  type TenantId,
  type Zone,
} from "@codeq/queue";
import { problemOfUrl } from "../../core/outbound/webhook-url.ts";
import { isLaneName, laneRule } from "../../core/records/lane-policy.ts";
import type { ScheduleOptions, ShownSchedule } from "../../core/records/schedule-record.ts";
import { readUnique, type UniqueInput } from "../../core/records/unique-record.ts";
import type { Zones } from "../../core/zones.ts";
import { bind } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type Refusal,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { overQuota } from "../../edge/refusal-of.ts";
import { explained } from "./explain-schedule.ts";
import { nextRuns, type ReadSpec, readSpec } from "./planned-runs.ts";

/** How far a task may be spread over, and how late it may be created. */
const durationMsMax = 366 * 24 * 3_600_000;

export const putSchedule = bind(api.schedules.putSchedule, {
  run: async (server, call, { id, ifVersion, ...given }) => {
    const { broker } = server;
    const { unique } = given;
    const options = { ...given, unique: unique && withDefaults(unique) };
    const { identity } = call;
    const { tenantId } = identity;
    const problem =
      problemOf(server, options) ?? (await problemOfPlacement(server, tenantId, options));
    if (problem !== undefined) return problem;
    if (identity.creates?.has(options.command.toLowerCase()) === false) {
      return refusal("event_type_not_allowed");
    }
    const known = await broker.schedules.get({ tenantId, id });
    if (known === undefined) {
      const count = await broker.schedules.count(tenantId);
      if (count >= limits.schedulesPerTenantMax) return refusal("too_many_schedules");
    }
    const put = await broker.schedules.put({ tenantId, id }, options, ifVersion);
    if (put.ok) return { ok: true, value: { ...put, schedule: shownTo(call, put.schedule) } };
    const is = put.version === 0 ? "there is no such schedule" : `its version is ${put.version}`;
    const text = `the version is not ${ifVersion}: ${is}; read the schedule and decide again`;
    return refusal(put.code, text);
  },
  audit: {
    detail: ({ schedule: { version, cron, every, tz, command } }) =>
      `version ${version}: ${command} ${cron === "" ? `every ${every}` : `${cron} ${tz}`}`,
  },
  show: ({ schedule, isNew }) => ({
    status: isNew ? 201 : 200,
    value: schedule,
    headers: { etag: `"${schedule.version}"` },
  }),
});

function problemOf(server: Server, options: ScheduleOptions): Refusal | undefined {
  const { webhook, payload, within, spread } = options;
  const shared = problemOfShared(options);
  if (shared !== undefined) return shared;
  if (webhook !== "" && problemOfUrl("webhook", webhook, server.config) !== undefined) {
    const others = "or any address if webhookAllowPrivateNetworks is set";
    return invalid("webhook", `an http or https URL of a public address, ${others}`);
  }
  const { payloadBytesMax } = server.config;
  if (Buffer.byteLength(payload) > payloadBytesMax) {
    const text = `payload is larger than ${payloadBytesMax} bytes; store the data elsewhere and put its name into the payload`;
    return refusal("payload_too_large", text);
  }
  for (const [field, text] of Object.entries({ within, spread })) {
    const ms = durationMs(text);
    const isFine = text === "" || (ms !== undefined && ms <= durationMsMax);
    if (!isFine)
      return invalid(
        field,
        `${JSON.stringify(text)} is no length of time; write for example "10m"`,
      );
  }
  const spec = specIn(server.zones, options);
  if (!spec.ok) return spec;
  if (spec.value.spec.next(server.clock.nowMs()) !== undefined) return undefined;
  return invalid(
    options.cron === "" ? "every" : "cron",
    "it never fires from now on; look at 'until' and 'except', or delete the schedule",
  );
}

/** The same for every request that asks for the same. */
function withDefaults({
  key,
  while: until,
  on,
  for: forAtLeast,
  maxWait,
}: UniqueInput): UniqueInput {
  return {
    key,
    while: until || "unfinished",
    on: on || "return",
    for: forAtLeast || undefined,
    maxWait: maxWait || undefined,
  };
}

function problemOfShared({ unique, lane }: ScheduleOptions): Refusal | undefined {
  const read = unique && readUnique(unique);
  if (read?.ok === false) return invalid(`unique.${read.field}`, read.rule);
  return lane === "" || isLaneName(lane) ? undefined : invalid("lane", laneRule);
}

/** What tasks share with other tasks of their queue is exact in one shard only, which may not be that of the schedule. */
async function problemOfPlacement(
  { broker }: Server,
  tenantId: TenantId,
  { unique, lane, command }: ScheduleOptions,
): Promise<Refusal | undefined> {
  if (broker.shards.length < 2) return undefined;
  const topics = await broker.topicsOf(tenantId);
  const topic = topics.find(({ name }) => name === queueOf(command));
  const isPlaced = topic?.policy.placement === "one";
  if (unique === undefined && lane === "" && !isPlaced) return undefined;
  const text =
    "with several shards, a schedule cannot have a unique key, a lane, or a queue with the placement one, because its " +
    "tasks are in the shard of the schedule; leave them out, and let its task enqueue the other one";
  return refusal("placement_conflict", text);
}

function invalid(field: string, rule: string): Refusal {
  const { code, say } = api.schedules.putSchedule.outOfBounds;
  return { ...refusal(code, say(field, rule)), details: { field } };
}

function specIn(zones: Zones, text: SpecText): Answer<ReadSpec> {
  const read = readSpec(zones, text);
  return read.ok ? { ok: true, value: read } : invalid(read.field, read.why);
}

/** Without the payload, if the caller must not see payloads. */
function shownTo({ identity }: Call, schedule: ShownSchedule): ShownSchedule {
  return identity.hidesPayloads ? { ...schedule, payload: "{}" } : schedule;
}

function answered(call: Call, schedule: ShownSchedule | undefined): Answer<ShownSchedule> {
  if (schedule === undefined) return refusal("schedule_not_found");
  return { ok: true, value: shownTo(call, schedule) };
}

export const getSchedule = bind(api.schedules.getSchedule, {
  run: async ({ broker }, call, { id }) => {
    const { tenantId } = call.identity;
    return answered(call, await broker.schedules.get({ tenantId, id }));
  },
});

export const listSchedules = bind(api.schedules.listSchedules, {
  run: async ({ broker }, call, { limit, after, prefix }) => {
    const { tenantId } = call.identity;
    const { items, reached } = await broker.schedules.list({ tenantId, prefix, after, limit });
    const schedules = items.map((schedule) => shownTo(call, schedule));
    return { ok: true, value: { schedules, next: reached } };
  },
});

export const deleteSchedule = bind(api.schedules.deleteSchedule, {
  run: async ({ broker }, call, { id }) => {
    const isGone = await broker.schedules.delete({ tenantId: call.identity.tenantId, id });
    return isGone ? { ok: true, value: undefined } : refusal("schedule_not_found");
  },
});

export const pauseSchedule = bind(api.schedules.pauseSchedule, {
  run: async ({ broker, clock }, call, { id, reason }) => {
    const { identity } = call;
    const pause = { by: identity.subject, reason, atMs: Math.floor(clock.nowMs()) };
    const { tenantId } = identity;
    return answered(call, await broker.schedules.pause({ tenantId, id }, pause));
  },
  audit: { detail: ({ paused }) => paused?.reason ?? "" },
});

export const resumeSchedule = bind(api.schedules.resumeSchedule, {
  run: async ({ broker }, call, { id }) => {
    const { tenantId } = call.identity;
    return answered(call, await broker.schedules.resume({ tenantId, id }));
  },
});

export const runSchedule = bind(api.schedules.runSchedule, {
  run: async (server, call, { id }) => {
    const { tenantId } = call.identity;
    const ran = await server.broker.schedules.run({ tenantId, id });
    if (ran.ok) return { ok: true, value: { taskId: ran.taskId } };
    if (ran.code === "quota_exceeded") return overQuota(server, ran.exceeded);
    if (ran.code === "schedule_not_found") return refusal(ran.code);
    const text = `task ${ran.taskId} of the schedule has not ended; wait for it, cancel it, or set overlap to "allow"`;
    return refusal(ran.code, text);
  },
  audit: { detail: ({ taskId }) => `task ${taskId}` },
});

export const backfillSchedule = bind(api.schedules.backfillSchedule, {
  run: async (
    server,
    call,
    { id, fromMs, untilMs, perSecond, isDryRun },
  ): Promise<Answer<Begun>> => {
    const { broker, clock, jobs } = server;
    const { tenantId, subject: by } = call.identity;
    const of = { tenantId, id };
    if ((await broker.schedules.get(of)) === undefined) return refusal("schedule_not_found");
    if (fromMs > untilMs || untilMs > clock.nowMs()) {
      const text =
        "invalid 'until' (not before 'from', and not in the future: the schedule fires what is to come)";
      return refusal("invalid_argument", text);
    }
    if (isDryRun) {
      const found = await broker.schedules.missing(of, {
        afterMs: fromMs - 1,
        untilMs,
        limit: countedMax,
      });
      return {
        ok: true,
        value: { matched: found.instants.length, hasMore: found.nextMs !== undefined },
      };
    }
    const action = { kind: "backfill", schedule: id, fromMs, untilMs } as const;
    const asked = {
      schedule: id,
      from: new Date(fromMs).toISOString(),
      until: new Date(untilMs).toISOString(),
    };
    const job = await jobs.create({
      tenantId,
      by,
      asked,
      perSecond,
      action,
      filter: {},
      canary: undefined,
      total: undefined,
    });
    if (job === undefined) return refusal("too_many_jobs");
    return { ok: true, value: { ...job, action: "backfill", canary: undefined } };
  },
  audit: {
    detail: (begun) => ("id" in begun ? `job ${begun.id}` : `dry run: ${begun.matched}`),
  },
  show: (begun) => ({ status: "id" in begun ? 201 : 200, value: begun }),
});

/** A dry run looks at so many instants. */
const countedMax = 10_000;

type Begun = KeptOf<typeof Job> | { readonly matched: number; readonly hasMore: boolean };

export const listScheduleRuns = bind(api.schedules.listScheduleRuns, {
  run: async ({ broker }, call, { id, limit }) => {
    const of = { tenantId: call.identity.tenantId, id };
    if ((await broker.schedules.get(of)) === undefined) return refusal("schedule_not_found");
    return { ok: true, value: { runs: await broker.schedules.runs(of, limit) } };
  },
});

export const explainSchedule = bind(api.schedules.explainSchedule, {
  run: async ({ broker, clock, zones }, call, { id, at }) => {
    const of = { tenantId: call.identity.tenantId, id };
    const schedule = await broker.schedules.get(of);
    if (schedule === undefined) return refusal("schedule_not_found");
    const read = specIn(zones, schedule);
    if (!read.ok) return read;
    const { spec, zone } = read.value;
    const asked = instantIn(at, zone);
    if (asked === undefined) {
      return refusal(
        "invalid_argument",
        `invalid 'at' (${api.schedules.explainSchedule.query.at.rule})`,
      );
    }
    const nominalMs = spec.next(asked.ms - 1);
    const isNominal = nominalMs !== undefined && nominalMs < asked.ms + 1000;
    const looked = isNominal ? await broker.schedules.look(of, nominalMs) : undefined;
    const nowMs = clock.nowMs();
    return {
      ok: true,
      value: explained({ schedule, spec, zone, asked, nominalMs, looked, nowMs }),
    };
  },
});

/** An instant as the caller wrote it. */
export interface AskedInstant {
  readonly ms: number;
  /** The local time that does not exist on that day. */
  readonly missing: string | undefined;
}

function instantIn(text: string, zone: Zone): AskedInstant | undefined {
  const isLocal = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?$/.test(text);
  const ms = Date.parse(isLocal ? `${text.replace(" ", "T")}Z` : text);
  if (Number.isNaN(ms)) return undefined;
  if (!isLocal) return { ms, missing: undefined };
  const instantMs = instantOf(zone, ms);
  const exists = instantMs + zone.offsetMs(instantMs) === ms;
  return { ms: instantMs, missing: exists ? undefined : text };
}

/** Instants that are looked for in one turn of the event loop. */
const previewedAtOnce = 2;

export const previewSchedule = bind(api.schedules.previewSchedule, {
  run: async ({ clock, zones }, _, { count, afterMs, ...text }) => {
    const read = specIn(zones, text);
    if (!read.ok) return read;
    const runs: KeptOf<typeof PlannedRun>[] = [];
    let hasMore = true;
    while (hasMore && runs.length < count) {
      const piece = nextRuns(read.value, text.cron, {
        afterMs: runs.at(-1)?.atMs ?? afterMs ?? clock.nowMs(),
        count: Math.min(previewedAtOnce, count - runs.length),
      });
      runs.push(...piece.runs);
      hasMore = piece.hasMore;
      // A spec with many exceptions takes milliseconds for each instant; others have their turn in between.
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    return { ok: true, value: { runs, hasMore } };
  },
});

declare module "../../edge/operation.ts" {
  interface Server {
    readonly zones: Zones;
  }
}
