/**
 * The keyspace. Keys are printable ASCII; numbers in them are 14 hexadecimal digits, most
 * significant first, so that the order of the text is the order of the numbers.
 *
 *   codeq/tasks/<id>                                        the task record
 *   codeq/payload/<id>                                      a long payload, never rewritten
 *   codeq/results/<id>                                      a long result record
 *   codeq/idempo/<tenant>/<key>                             which task a key stands for
 *   codeq/unique/<tenant>/<queue>/<key>                     which tasks hold a unique key and wait for it
 *   codeq/kept-keys/<ms>/<entry>                            until when the entry of a key without a task is kept
 *   codeq/ttl/<ms>/<id>                                     when a finished task may be deleted
 *   codeq/start-by/<ms>/<id>                                when a task that still waits ends
 *   codeq/webhook/<ms>/<id>                                 a webhook that is due
 *   codeq/deliveries/<id>                                   the outcome of its webhook
 *   codeq/undelivered/<tenant>/<ms>/<id>                    a webhook that was given up
 *   codeq/endpoints/<tenant>/<url>                          an endpoint that fails, or is disabled
 *   codeq/signing/<tenant>                                  the secrets that sign its webhooks
 *   codeq/q/<queue>/<tenant>/pending/<9-priority>/<seq>/<id>
 *   codeq/q/<queue>/<tenant>/pending/l/<lane>/<9-priority>/<seq>/<id>
 *   codeq/q/<queue>/<tenant>/inprog/<id>
 *   codeq/q/<queue>/<tenant>/delayed/<ms>/<id>
 *   codeq/q/<queue>/<tenant>/held/<id>
 *   codeq/q/<queue>/<tenant>/dlq/<id>
 *   codeq/q/<queue>/<tenant>/failed/<id>
 *   codeq/failures/<tenant>/<group>/<queue>/<id>            a dead letter or failed task, by its failure group
 *   codeq/failure-times/<tenant>/<group>/<ms>/<id>          the same, by the time of its end
 *   codeq/failure-counts/<tenant>/<hour>/<group>/<queue>    how many of them, written with every flush; hour 0 is all hours
 *   codeq/counts/<queue>/<tenant>                           how many of each, written with every flush
 *   codeq/lane-counts/<queue>/<tenant>/<lane>               ready tasks of a lane by priority, written with every flush
 *   codeq/lanes/<queue>/<tenant>/<lane>                     what a lane has spent of its rate, and until when it is held
 *   codeq/lane-policies/<queue>/<tenant>/<lane>             what an administrator gave to a lane
 *   codeq/paused/<queue>/<tenant>                           who paused it, when and why
 *   codeq/series/<queue>/<tenant>/<m or h>/<number>         what happened in a minute or an hour; queue * for all
 *   codeq/jobs/<tenant>/<id>                                a bulk job
 *   codeq/triage/<tenant>/<group>                           what was decided about a failure group
 *   codeq/topics/<queue>/<tenant>                           the policy that an administrator gave it
 *   codeq/schedules/<tenant>/<id>                           a schedule as it was put
 *   codeq/schedule-state/<tenant>/<id>                      up to where it was fired, and what was skipped
 *   codeq/schedule-runs/<tenant>/<id>/<ms>/<task>           a task of it, by the nominal instant
 *   codeq/schedule-live/<tenant>/<id>/<task>                a task of it that has not ended
 *   codeq/batches/<tenant>/<id>                             a batch as it was created
 *   codeq/batch-state/<tenant>/<id>                         its phase, and how many members have ended
 *   codeq/batch-members/<tenant>/<id>/<task>                a member of it
 *   codeq/batch-failed/<tenant>/<id>/<task>                 a member of it that failed
 *   codeq/batch-awaits/<task>/<batch>                       a task without a batch that it waits for
 *   codeq/batch-due/<ms>/<batch>                            when it expires, or has something left to do
 *   codeq/keys/<tenant>/<id>                                an API key, without its secret
 *   codeq/key-uses/<id>                                     about when an API key was last used
 *   codeq/subs/<tenant>/<id>                                a subscription to availability notifications
 *   codeq/sub-turns/<id>                                    when its subscriber was last notified
 *   codeq/bytes/<tenant>                                    bytes of its payloads and results
 *   codeq/audit/all/<max-ms>/<n>                            an audit record, the newest first
 *   codeq/audit/of/<tenant>/<max-ms>/<n>                    the same, by the tenant it concerns
 *   codeq/quarantine/<key>                                  a damaged value, unchanged
 *   codeq/meta/...                                          format, position, sequence
 *
 * The priority is stored inverted, so one ascending scan of `pending/` yields 9 first. Queue names
 * and tenants cannot contain a slash, so a key is read back by splitting it.
 */
import type { TaskId, TenantId } from "@codeq/queue";

const digits = 14;
const priorityMax = 9;
const pendingName = "pending/";

/** Every number of three hexadecimal digits, because `toString(16)` of a large one takes 0.4 us. */
const triples: readonly string[] = Array.from({ length: 0x1000 }, (_, number) =>
  number.toString(16).padStart(3, "0"),
);

export function sortable(number: number): string {
  const front = Math.floor(number / 0x1000000);
  const rest = number % 0x1000000;
  return (
    (triples[front >>> 24] as string).slice(1) +
    triples[(front >>> 12) & 0xfff] +
    triples[front & 0xfff] +
    triples[rest >>> 12] +
    triples[rest & 0xfff]
  );
}

/** Greater than every key that continues the prefix. */
export function endOf(prefix: string): string {
  return `${prefix}~`;
}

export const tasksPrefix = "codeq/tasks/";
export const taskKey = (id: TaskId): string => tasksPrefix + id;
export const payloadKey = (id: TaskId): string => `codeq/payload/${id}`;
export const resultKey = (id: TaskId): string => `codeq/results/${id}`;
export const quarantineKey = (key: string): string => `codeq/quarantine/${key}`;
/** Half a surrogate pair has no encoding; the replacement character stands for it. */
export const idempotencyPrefix = "codeq/idempo/";
const idempotencyName = (tenant: TenantId, key: string): string =>
  `${tenant || "_"}/${encodeURIComponent(key.toWellFormed())}`;
export const idempotencyKeyOf = (tenant: TenantId, key: string): string =>
  idempotencyPrefix + idempotencyName(tenant, key);

export const uniquePrefix = "codeq/unique/";
export const uniqueKeyOf = (of: {
  readonly tenantId: TenantId;
  readonly queue: string;
  readonly key: string;
}): string =>
  `${uniquePrefix}${of.tenantId || "_"}/${of.queue}/${encodeURIComponent(of.key.toWellFormed())}`;

/** Entries of idempotency keys and unique keys without a task, by the time until which they are kept. */
export const keptKeysPrefix = "codeq/kept-keys/";
const root = "codeq/";
/** Stands for a slash: the name of an entry behind its time has none, like the id of a task. */
const slash = "\x01";
export const keptKeyOf = (ms: number, entryKey: string): string =>
  `${keptKeysPrefix}${sortable(ms)}/${entryKey.slice(root.length).replaceAll("/", slash)}`;
/** The key of the entry that a kept key stands for. */
export const entryKeyOf = (name: string): string => root + name.replaceAll(slash, "/");

export const retentionPrefix = "codeq/ttl/";
export const retentionKey = (ms: number, id: TaskId): string =>
  `${retentionPrefix}${sortable(ms)}/${id}`;

export const startByPrefix = "codeq/start-by/";
export const startByKey = (ms: number, id: TaskId): string =>
  `${startByPrefix}${sortable(ms)}/${id}`;

export const webhookPrefix = "codeq/webhook/";
export const webhookKey = (ms: number, id: TaskId): string =>
  `${webhookPrefix}${sortable(ms)}/${id}`;

export const deliveryPrefix = "codeq/deliveries/";
export const deliveryKey = (id: TaskId): string => deliveryPrefix + id;
export const allUndeliveredPrefix = "codeq/undelivered/";
export const undeliveredPrefix = (tenant: TenantId): string =>
  `${allUndeliveredPrefix}${tenant || "_"}/`;
export const undeliveredKey = (tenant: TenantId, ms: number, id: TaskId): string =>
  `${undeliveredPrefix(tenant)}${sortable(ms)}/${id}`;
export const endpointsPrefix = "codeq/endpoints/";
export const endpointKey = (tenant: TenantId, url: string): string =>
  `${endpointsPrefix}${tenant || "_"}/${encodeURIComponent(url)}`;
export const signingPrefix = "codeq/signing/";
export const signingKey = (tenant: TenantId): string => signingPrefix + (tenant || "_");

export const queuesPrefix = "codeq/q/";

/** A cache of the last prefix, because one decision asks for the same prefix several times. */
const lastPrefix = { queue: "", tenant: "", text: "" };

export function queuePrefix(queue: string, tenant: TenantId): string {
  if (lastPrefix.queue !== queue || lastPrefix.tenant !== tenant || lastPrefix.text === "") {
    lastPrefix.queue = queue;
    lastPrefix.tenant = tenant;
    // `join` makes one flat string, which is cheaper to append to than a chain of pieces.
    lastPrefix.text = ["codeq", "q", queue, tenant || "_", ""].join("/");
  }
  return lastPrefix.text;
}

export const pendingPrefix = (prefix: string, priority: number): string =>
  `${prefix}${pendingName}${priorityMax - priority}/`;
/** Ready tasks of a lane, or of one of its priorities. */
export const lanePrefix = (prefix: string, lane: string, priority?: number): string => {
  const all = `${prefix}${pendingName}l/${laneText(lane)}/`;
  return priority === undefined ? all : `${all}${priorityMax - priority}/`;
};
export const allPendingPrefix = (prefix: string): string => prefix + pendingName;
export const delayedPrefix = (prefix: string): string => `${prefix}delayed/`;
export const inProgressPrefix = (prefix: string): string => `${prefix}inprog/`;
export const heldPrefix = (prefix: string): string => `${prefix}held/`;
export const deadPrefix = (prefix: string): string => `${prefix}dlq/`;

export const failedPrefix = (prefix: string): string => `${prefix}failed/`;

export const failuresPrefix = "codeq/failures/";
export const failureTimesPrefix = "codeq/failure-times/";

/** The failures of a group in one queue. */
export interface FailuresOfQueue {
  readonly tenantId: TenantId;
  readonly group: string;
  readonly queue: string;
}

export const failuresOf = ({ tenantId, group, queue }: FailuresOfQueue): string =>
  `${failuresPrefix}${tenantId || "_"}/${group}/${queue}/`;
export const failureTimesOf = (of: Omit<FailuresOfQueue, "queue">): string =>
  `${failureTimesPrefix}${of.tenantId || "_"}/${of.group}/`;

/** The tenant and the group of a prefix or a key below `failures` and `failure-times`. */
export function failuresIn(key: string): Omit<FailuresOfQueue, "queue"> {
  const [, , tenant = "", group = ""] = key.split("/");
  return { tenantId: (tenant === "_" ? "" : tenant) as TenantId, group };
}

interface FailureCellName extends FailuresOfQueue {
  readonly hour: number;
}

export const allFailureCountsPrefix = "codeq/failure-counts/";
/** The counters of an hour, or of one group in that hour. */
export const failureCountsPrefix = (tenant: TenantId, hour: number, group = ""): string =>
  `${allFailureCountsPrefix}${tenant || "_"}/${sortable(hour)}/${group === "" ? "" : `${group}/`}`;
export const failureCountsKey = ({ tenantId, group, queue, hour }: FailureCellName): string =>
  failureCountsPrefix(tenantId, hour, group) + queue;

export function parseFailureCountsKey(key: string): FailureCellName {
  const parts = key.slice(allFailureCountsPrefix.length).split("/");
  const [tenant = "", hour = "", group = "", queue = ""] = parts;
  const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
  return { tenantId, group, queue, hour: Number.parseInt(hour, 16) };
}

export const countsPrefix = "codeq/counts/";
export const countsKey = (queue: string, tenant: TenantId): string =>
  `${countsPrefix}${queue}/${tenant || "_"}`;

/** A lane of a queue. */
export interface LaneName {
  readonly tenantId: TenantId;
  /** The name of the queue. */
  readonly name: string;
  readonly lane: string;
}

/** Half a surrogate pair has no encoding; the replacement character stands for it. */
const laneText = (lane: string): string => encodeURIComponent(lane.toWellFormed());
const ofLane =
  (first: string) =>
  ({ tenantId, name, lane }: LaneName): string =>
    `${first}${name}/${tenantId || "_"}/${laneText(lane)}`;

export const laneCountsPrefix = "codeq/lane-counts/";
export const laneCountsKey = ofLane(laneCountsPrefix);
export const lanesPrefix = "codeq/lanes/";
export const laneKey = ofLane(lanesPrefix);
export const lanePoliciesPrefix = "codeq/lane-policies/";
export const lanePolicyKey = ofLane(lanePoliciesPrefix);

/** The lane of a key below one of these prefixes. */
export function laneIn(key: string): LaneName {
  const [, , name = "", tenant = "", lane = ""] = key.split("/");
  const tenantId = (tenant === "_" ? "" : tenant) as TenantId;
  return { tenantId, name, lane: decodeURIComponent(lane) };
}

export const pausedPrefix = "codeq/paused/";
export const pausedKey = (queue: string, tenant: TenantId): string =>
  `${pausedPrefix}${queue}/${tenant || "_"}`;

export const seriesPrefix = "codeq/series/";
export const seriesOf = (queue: string, tenant: TenantId, unit: "m" | "h"): string =>
  `${seriesPrefix}${queue}/${tenant || "_"}/${unit}/`;

export const jobsPrefix = "codeq/jobs/";
export const jobKey = (tenant: TenantId, id: string): string =>
  `${jobsPrefix}${tenant || "_"}/${id}`;

export const allTriagePrefix = "codeq/triage/";
export const triagePrefix = (tenant: TenantId): string => `${allTriagePrefix}${tenant || "_"}/`;
export const triageKey = (tenant: TenantId, group: string): string => triagePrefix(tenant) + group;

export const topicsPrefix = "codeq/topics/";
export const topicKey = (queue: string, tenant: TenantId): string =>
  `${topicsPrefix}${queue}/${tenant || "_"}`;

export const schedulesPrefix = "codeq/schedules/";
export const scheduleStatePrefix = "codeq/schedule-state/";
export const scheduleRunsPrefix = "codeq/schedule-runs/";
export const scheduleLivePrefix = "codeq/schedule-live/";
const ofSchedule = (prefix: string, tenant: TenantId, id: string): string =>
  `${prefix}${tenant || "_"}/${id}`;
export const scheduleKey = (tenant: TenantId, id: string): string =>
  ofSchedule(schedulesPrefix, tenant, id);
export const scheduleStateKey = (tenant: TenantId, id: string): string =>
  ofSchedule(scheduleStatePrefix, tenant, id);
export const runsOfSchedule = (tenant: TenantId, id: string): string =>
  `${ofSchedule(scheduleRunsPrefix, tenant, id)}/`;
export const liveOfSchedule = (tenant: TenantId, id: string): string =>
  `${ofSchedule(scheduleLivePrefix, tenant, id)}/`;

export const batchesPrefix = "codeq/batches/";
export const batchStatePrefix = "codeq/batch-state/";
export const batchMembersPrefix = "codeq/batch-members/";
export const batchFailedPrefix = "codeq/batch-failed/";
export const batchAwaitsPrefix = "codeq/batch-awaits/";
export const batchDuePrefix = "codeq/batch-due/";
export const batchesOf = (tenant: TenantId): string => `${batchesPrefix}${tenant || "_"}/`;
export const batchKey = (tenant: TenantId, id: string): string => batchesOf(tenant) + id;
export const batchStateKey = (tenant: TenantId, id: string): string =>
  `${batchStatePrefix}${tenant || "_"}/${id}`;
export const membersOfBatch = (tenant: TenantId, id: string): string =>
  `${batchMembersPrefix}${tenant || "_"}/${id}/`;
export const failedOfBatch = (tenant: TenantId, id: string): string =>
  `${batchFailedPrefix}${tenant || "_"}/${id}/`;
export const batchAwaitsKey = (task: TaskId, tenant: TenantId, id: string): string =>
  `${batchAwaitsPrefix}${task}/${tenant || "_"}${slash}${id}`;
/** The name of a batch behind its time has no slash, like the id of a task. */
export const batchDueKey = (ms: number, tenant: TenantId, id: string): string =>
  `${batchDuePrefix}${sortable(ms)}/${tenant || "_"}${slash}${id}`;
export function batchInDue(name: string): { readonly tenantId: TenantId; readonly id: string } {
  const [tenant = "", id = ""] = name.split(slash);
  return { tenantId: (tenant === "_" ? "" : tenant) as TenantId, id };
}

export const apiKeysPrefix = "codeq/keys/";
const apiKeysOf = (tenant: TenantId): string => `${apiKeysPrefix}${tenant}/`;
export const apiKeyKey = (tenant: TenantId, id: string): string => apiKeysOf(tenant) + id;
export const apiKeyUsesPrefix = "codeq/key-uses/";
export const apiKeyUseKey = (id: string): string => apiKeyUsesPrefix + id;

export const subscriptionsPrefix = "codeq/subs/";
export const subscriptionKey = (tenant: TenantId, id: string): string =>
  `${subscriptionsPrefix}${tenant || "_"}/${id}`;
export const subscriptionTurnsPrefix = "codeq/sub-turns/";
export const subscriptionTurnKey = (id: string): string => subscriptionTurnsPrefix + id;

export const storedBytesPrefix = "codeq/bytes/";

export const storedBytesKey = (tenant: TenantId): string => `${storedBytesPrefix}${tenant || "_"}`;

export function tenantOfStoredBytes(key: string): TenantId {
  const name = key.slice(storedBytesPrefix.length);
  return (name === "_" ? "" : name) as TenantId;
}

const allAuditPrefix = "codeq/audit/";
export const auditPrefix = "codeq/audit/all/";
export const auditOfPrefix = (tenant: TenantId): string => `codeq/audit/of/${tenant || "_"}/`;

/** A text that sorts before the text of every earlier moment. */
export function newestFirst(ms: number): string {
  return sortable(Number.MAX_SAFE_INTEGER - ms);
}

/** The keys of the control store; everything else belongs to a shard. */
export const controlPrefixes: readonly string[] = [
  apiKeysPrefix,
  apiKeyUsesPrefix,
  allAuditPrefix,
  subscriptionsPrefix,
  subscriptionTurnsPrefix,
  jobsPrefix,
];

export const sequenceKey = "codeq/meta/sequence";
export const formatKey = "codeq/meta/format";
/** This key exists when all shards have been made. */
export const shardsKey = "codeq/meta/shards";

/** The task id that ends an index key. */
export function idOf(key: string): TaskId {
  return key.slice(key.lastIndexOf("/") + 1) as TaskId;
}

/** The number in front of the task id of a `pending`, `delayed`, `ttl`, `start-by` or `webhook` key. */
export function numberOf(key: string): number {
  const end = key.lastIndexOf("/");
  return Number.parseInt(key.slice(end - digits, end), 16);
}

export type IndexKind = "pending" | "inprog" | "delayed" | "held" | "dlq" | "failed";

export interface IndexKey {
  readonly queue: string;
  readonly tenantId: TenantId;
  readonly kind: IndexKind;
  /** Only for `pending` keys. */
  readonly priority: number;
  /** Only for `pending` keys of tasks with a lane; otherwise empty. */
  readonly lane: string;
}

/** Reads a key below `codeq/q/`. */
export function parseIndexKey(key: string): IndexKey {
  const tenantAt = key.indexOf("/", queuesPrefix.length) + 1;
  const kindAt = key.indexOf("/", tenantAt) + 1;
  const kindEnd = key.indexOf("/", kindAt);
  const tenant = key.slice(tenantAt, kindAt - 1);
  const kind = key.slice(kindAt, kindEnd) as IndexKind;
  const isInLane = kind === "pending" && key[kindEnd + 1] === "l";
  const laneAt = kindEnd + 3;
  const laneEnd = isInLane ? key.indexOf("/", laneAt) : 0;
  const priorityAt = isInLane ? laneEnd + 1 : kindEnd + 1;
  return {
    queue: key.slice(queuesPrefix.length, tenantAt - 1),
    tenantId: (tenant === "_" ? "" : tenant) as TenantId,
    kind,
    priority: kind === "pending" ? priorityMax - Number(key[priorityAt]) : 0,
    lane: isInLane ? decodeURIComponent(key.slice(laneAt, laneEnd)) : "",
  };
}
