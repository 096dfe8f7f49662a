/**
 * The words of the conversation between a router and a shard, and how what they carry is written.
 *
 * A message of the router begins with how many bytes it has received so far. One of a shard begins with
 * the number of the last call that it has carried out, with the claims up to there that are still to be
 * decided, since the disk is read for them, and with whether it is overloaded. Calls are numbered in their
 * order. An answer carries the number of its call; a note of a shard tells something that changed.
 */
import { FaultError } from "@codeq/engine";
import {
  type Artifact,
  type NewTask,
  type Report,
  type Result,
  type ResultBody,
  resultOf,
  type Submission,
  type TaskExtras,
  type TaskId,
  type TenantId,
  type WorkerId,
} from "@codeq/queue";
import type { ClaimRequest } from "../broker/claim.ts";
import type { Heartbeat } from "../broker/queue.ts";
import type { ClaimedTask, OwnedTask, Refused, Submitted, TaskOutcome } from "../broker/verbs.ts";
import type { MessageReader, MessageWriter } from "./message.ts";

export const call = {
  enqueue: 1,
  claim: 2,
  heartbeat: 3,
  nack: 4,
  abandon: 5,
  submit: 6,
  release: 7,
  get: 8,
  outcome: 9,
  /** Everything else, as JSON. */
  ask: 10,
  /** Nobody waits for the answer any more. */
  cancel: 11,
  /** Whether anybody listens to the events. */
  listen: 12,
} as const;

export const answer = {
  enqueued: 1,
  claimed: 2,
  extended: 3,
  returned: 4,
  submitted: 5,
  refused: 6,
  found: 7,
  outcome: 8,
  told: 9,
  /** The key stands for a task of another shard. */
  moved: 10,
  /** The key stands for nothing here. */
  unknownKey: 11,
  hint: 20,
  room: 21,
  event: 22,
  missed: 23,
  state: 24,
  /** All that the shard has told so far of queues and tenants is void; what is follows. */
  anew: 25,
  /** How many leases a queue with a topic has, and how many it may have over all shards. */
  leased: 26,
  /** Of callbacks: it fails, or takes them again. */
  endpoint: 27,
} as const;

/** What a new task meets at its shard. */
export const terms = {
  none: 0,
  /** It would exceed a quota, so only one that is there already may be answered. */
  exceeded: 1,
  /** Its key was found elsewhere and leads here: nothing is created. */
  known: 2,
  /** Its key leads to a task that is gone. */
  forget: 3,
} as const;

export interface ShardHead {
  /** The number of the last call that was carried out. */
  readonly carriedOut: number;
  /** Claims up to there that are not decided yet. */
  readonly undecided: readonly number[];
  readonly isOverloaded: boolean;
}

export function writeHead(to: MessageWriter, head: ShardHead): void {
  to.double(head.carriedOut);
  to.flag(head.isOverloaded);
  to.number(head.undecided.length);
  for (const number of head.undecided) to.number(number);
}

export function readHead(from: MessageReader): ShardHead {
  const carriedOut = from.double();
  const isOverloaded = from.flag();
  const undecided = Array.from({ length: from.number() }, () => from.number());
  return { carriedOut, undecided, isOverloaded };
}

/** The priority is any number: the rules bring it into its limits. */
export function writeNewTask(to: MessageWriter, task: NewTask): void {
  to.text(task.tenantId);
  to.text(task.command);
  to.double(task.priority);
  to.text(task.webhook);
  to.text(task.traceParent);
  to.text(task.traceState);
  to.text(task.idempotencyKey);
  to.text(task.payload);
  to.number(task.payloadBytes);
  to.text(task.payloadHash);
  to.number(task.maxAttempts);
  to.double(task.visibleMs ?? Number.NaN);
  writeExtras(to, task.extras);
}

/** One byte when there are none. */
function writeExtras(to: MessageWriter, extras: TaskExtras | undefined): void {
  to.flag(extras !== undefined);
  if (extras === undefined) return;
  to.number(extras.tags.length);
  for (const tag of extras.tags) to.text(tag);
  to.number(extras.timeoutMs);
  to.number(extras.ttlMs);
  to.number(extras.startByMs);
}

function readExtras(from: MessageReader): TaskExtras | undefined {
  if (!from.flag()) return undefined;
  return {
    tags: Array.from({ length: from.number() }, () => from.text()),
    timeoutMs: from.number(),
    ttlMs: from.number(),
    startByMs: from.number(),
  };
}

export function readNewTask(from: MessageReader): NewTask {
  const task = {
    tenantId: from.text() as TenantId,
    command: from.text(),
    priority: from.double(),
    webhook: from.text(),
    traceParent: from.text(),
    traceState: from.text(),
    idempotencyKey: from.text(),
    payload: from.text(),
    payloadBytes: from.number(),
    payloadHash: from.text(),
    maxAttempts: from.number(),
  };
  const visibleMs = from.double();
  const extras = readExtras(from);
  return { ...task, visibleMs: Number.isNaN(visibleMs) ? undefined : visibleMs, extras };
}

export function writeClaim(to: MessageWriter, claim: ClaimRequest): void {
  const { queues } = claim;
  to.text(claim.tenantId);
  to.text(claim.workerId);
  to.number(queues === undefined ? 0 : queues.length + 1);
  for (const name of queues ?? []) to.text(name);
  to.double(claim.leaseMs);
  to.number(claim.count);
}

export function readClaim(from: MessageReader): ClaimRequest {
  const tenantId = from.text() as TenantId;
  const workerId = from.text() as WorkerId;
  const named = from.number();
  const queues = named === 0 ? undefined : Array.from({ length: named - 1 }, () => from.text());
  return { tenantId, workerId, queues, leaseMs: from.double(), count: from.number(), waitMs: 0 };
}

export function writeOwned(to: MessageWriter, { tenantId, id, owner }: OwnedTask): void {
  to.text(tenantId);
  to.text(id);
  to.text(owner.workerId);
  to.double(owner.leaseToken ?? Number.NaN);
}

export function readOwned(from: MessageReader): OwnedTask {
  const tenantId = from.text() as TenantId;
  const id = from.text() as TaskId;
  const workerId = from.text() as WorkerId;
  const token = from.double();
  return { tenantId, id, owner: { workerId, leaseToken: Number.isNaN(token) ? undefined : token } };
}

export function writeHeartbeat(to: MessageWriter, { leaseMs, report }: Heartbeat): void {
  to.double(leaseMs);
  to.flag(report !== undefined);
  if (report !== undefined) to.text(JSON.stringify(report));
}

export function readHeartbeat(from: MessageReader): Heartbeat {
  const leaseMs = from.double();
  return from.flag() ? { leaseMs, report: from.json() as Report } : { leaseMs };
}

export function writeSubmission(to: MessageWriter, submission: Submission): void {
  to.flag(submission.how === "completed");
  to.text(submission.error);
  writeBody(to, submission.result);
  to.number(submission.resultBytes);
}

export function readSubmission(from: MessageReader): Submission {
  const how = from.flag() ? "completed" : "failed";
  return { how, error: from.text(), result: readBody(from), resultBytes: from.number() };
}

function writeBody(to: MessageWriter, { json, artifacts }: ResultBody): void {
  to.text(json);
  to.number(artifacts.length);
  for (const { name, url, bytes = 0, sha256 = "", contentType = "" } of artifacts) {
    to.text(name);
    to.text(url);
    to.text(sha256);
    if (sha256 === "") continue;
    to.number(bytes);
    to.text(contentType);
  }
}

function readBody(from: MessageReader): ResultBody {
  const json = from.text();
  const artifacts: Artifact[] = [];
  for (let left = from.number(); left > 0; left--) {
    const link = { name: from.text(), url: from.text() };
    const sha256 = from.text();
    if (sha256 === "") artifacts.push(link);
    else artifacts.push({ ...link, bytes: from.number(), sha256, contentType: from.text() });
  }
  return { json, artifacts };
}

export function writeClaimed(to: MessageWriter, { task, payload }: ClaimedTask): void {
  to.task(task);
  const isApart = task.payload !== payload;
  to.flag(isApart);
  if (isApart) to.text(payload);
}

export function readClaimed(from: MessageReader): ClaimedTask {
  const task = from.task();
  return { task, payload: from.flag() ? from.text() : (task.payload ?? "") };
}

export function writeSubmitted(to: MessageWriter, submitted: Submitted): void {
  const { task, result, repeated } = submitted;
  to.task(task);
  to.flag(repeated);
  writeBody(to, { json: result.resultJson, artifacts: result.artifacts });
}

export function readSubmitted(from: MessageReader): Submitted {
  const task = from.task();
  const repeated = from.flag();
  return { task, repeated, result: resultOf(task, readBody(from)) as Result };
}

export function writeOutcome(to: MessageWriter, { task, result }: TaskOutcome): void {
  to.task(task);
  to.flag(result !== undefined);
  if (result === undefined) return;
  writeBody(to, { json: result.resultJson, artifacts: result.artifacts });
}

export function readOutcome(from: MessageReader): TaskOutcome {
  const task = from.task();
  return { task, result: from.flag() ? resultOf(task, readBody(from)) : undefined };
}

export function writeRefused(to: MessageWriter, why: Refused): void {
  to.flag(why instanceof FaultError);
  if (why instanceof FaultError) {
    to.text(why.code);
    to.text(why.message);
  } else to.text(JSON.stringify(why));
}

export function readRefused(from: MessageReader): Refused {
  if (!from.flag()) return from.json() as Refused;
  const code = from.text() as FaultError["code"];
  return new FaultError(code, from.text());
}
