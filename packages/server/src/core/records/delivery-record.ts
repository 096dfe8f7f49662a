/**
 * The webhook of a task: the job to send it, ordered by due time, and its outcome, as text: the last tries, and
 * whether it waits, was delivered or was given up. A webhook that was given up is also in an index of its tenant, by
 * time.
 */
import { put, remove } from "@codeq/engine";
import type { TaskId, TenantId } from "@codeq/queue";
import {
  deliveryKey,
  endOf,
  sortable,
  undeliveredKey,
  webhookKey,
  webhookPrefix,
} from "../store/keys.ts";
import { parseRecord } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

export interface WebhookJob {
  /** Orders the jobs by time and task; opaque outside the store. */
  readonly key: string;
  readonly dueMs: number;
  readonly id: TaskId;
  /** How many tries there were. */
  readonly tries: number;
}

/** Bounds before the first job and after the last. */
export const firstWebhook: string = webhookPrefix;
export const lastWebhook: string = endOf(webhookPrefix);

/** The bound before the first job that is due at this time. */
export function webhooksFrom(dueMs: number): string {
  return webhookPrefix + sortable(dueMs);
}

export interface DeliveryTry {
  readonly atMs: number;
  /** Undefined when there was no answer. */
  readonly status: number | undefined;
  readonly durationMs: number;
  /** Why it failed; empty when it did not. */
  readonly why: string;
}

export const deliveryStates = ["waiting", "delivered", "failed"] as const;
export type DeliveryState = (typeof deliveryStates)[number];

export interface DeliveryLog {
  readonly state: DeliveryState;
  /** When the webhook came into this state. */
  readonly atMs: number;
  /** When the next try of a waiting webhook is due. */
  readonly nextMs: number | undefined;
  /** Why it was given up; empty otherwise. */
  readonly why: string;
  /** How often it was tried in all. */
  readonly total: number;
  /** The last tries, oldest first. */
  readonly tries: readonly DeliveryTry[];
}

const triesKept = 20;
const whyCharsMax = 256;

export const noDeliveries: DeliveryLog = {
  state: "waiting",
  atMs: 0,
  nextMs: undefined,
  why: "",
  total: 0,
  tries: [],
};

/** The log with one more try. */
export function withTry(log: DeliveryLog, tried: DeliveryTry): DeliveryLog {
  const cut = { ...tried, why: cutWhy(tried.why) };
  return { ...log, total: log.total + 1, tries: [...log.tries, cut].slice(-triesKept) };
}

interface DeliveryOf {
  readonly id: TaskId;
  readonly tenantId: TenantId;
}

/** Replaces the log, and the index entry of the log before. */
export function writesOfDelivery(
  { id, tenantId }: DeliveryOf,
  before: DeliveryLog | undefined,
  after: DeliveryLog,
): RecordWrite[] {
  const writes = [put(deliveryKey(id), encodeDelivery(after))];
  if (before?.state === "failed") writes.push(remove(undeliveredKey(tenantId, before.atMs, id)));
  if (after.state === "failed") writes.push(put(undeliveredKey(tenantId, after.atMs, id), ""));
  return writes;
}

/** Makes a webhook due now that has ended, or that waits for its next try. */
export function writesOfRedelivery(
  of: DeliveryOf,
  logs: { readonly stored: DeliveryLog | undefined; readonly known: DeliveryLog },
  nowMs: number,
): RecordWrite[] {
  const { nextMs } = logs.known;
  const after = { ...logs.known, state: "waiting", atMs: nowMs, nextMs: nowMs, why: "" } as const;
  return [
    ...(nextMs === undefined ? [] : [remove(webhookKey(nextMs, of.id))]),
    ...writesOfDelivery(of, logs.stored, after),
    put(webhookKey(nowMs, of.id), "0"),
  ];
}

/** Removes the log of a deleted task. */
export function removalsOfDelivery(
  { id, tenantId }: DeliveryOf,
  log: DeliveryLog | undefined,
): RecordWrite[] {
  const writes = [remove(deliveryKey(id))];
  if (log?.state === "failed") writes.push(remove(undeliveredKey(tenantId, log.atMs, id)));
  return writes;
}

function cutWhy(why: string): string {
  return why.slice(0, whyCharsMax).toWellFormed();
}

function encodeDelivery({ state, atMs, nextMs, why, total, tries }: DeliveryLog): string {
  const rows = tries.map((each) => [each.atMs, each.status ?? 0, each.durationMs, each.why]);
  return JSON.stringify([state, atMs, nextMs ?? 0, cutWhy(why), total, rows]);
}

/** Undefined when the text is not a valid record. */
export function decodeDelivery(text: string): DeliveryLog | undefined {
  const row = parseRecord(text);
  if (!isRow(row)) return undefined;
  const [state, atMs, nextMs, why, total, rows] = row;
  const tries = rows.map(([triedMs, status, durationMs, reason]) => {
    return { atMs: triedMs, status: status || undefined, durationMs, why: reason };
  });
  return { state, atMs, nextMs: nextMs || undefined, why, total, tries };
}

type TryRow = readonly [atMs: number, status: number, durationMs: number, why: string];

type Row = readonly [
  state: DeliveryState,
  atMs: number,
  nextMs: number,
  why: string,
  total: number,
  tries: readonly TryRow[],
];

function isRow(row: unknown): row is Row {
  if (!Array.isArray(row) || row.length !== 6) return false;
  const [state, atMs, nextMs, why, total, tries] = row as unknown[];
  return (
    deliveryStates.includes(state as DeliveryState) &&
    [atMs, nextMs, total].every(Number.isSafeInteger) &&
    typeof why === "string" &&
    Array.isArray(tries) &&
    tries.every(isTryRow)
  );
}

function isTryRow(row: unknown): row is TryRow {
  if (!Array.isArray(row) || row.length !== 4) return false;
  const [atMs, status, durationMs, why] = row as unknown[];
  return [atMs, status, durationMs].every(Number.isSafeInteger) && typeof why === "string";
}
