/** A batch as text, in two records: what it was created with, and its state, which is written with every end of a member. */
import { put, remove } from "@codeq/engine";
import * as api from "@codeq/protocol/api";
import {
  type BatchSpec,
  type BatchState,
  batchChores,
  batchPhases,
  type TaskId,
  type TenantId,
} from "@codeq/queue";
import { batchDueKey, batchInDue, batchKey, batchStateKey } from "../store/keys.ts";
import { fieldsOf, parseRecord, rowOf } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

export type BatchOptions = api.KeptOf<typeof api.BatchBody>;
export type ShownBatch = api.KeptOf<typeof api.Batch>;
export type ShownMember = api.KeptOf<typeof api.BatchMember>;

/** A batch of a tenant. */
export interface BatchOf {
  readonly tenantId: TenantId;
  readonly id: string;
}

export interface BatchRecord extends BatchSpec {
  /** Of the callback. */
  readonly command: string;
  readonly createdMs: number;
  /** The same for every request that asks for the same. */
  readonly asked: string;
}

/** The batch of a name in the index of moments. */
export const batchNamed: (name: string) => BatchOf = batchInDue;

/** The key whose shard a batch and its tasks are in. */
export function homeOfBatch(id: string): string {
  return `batch/${id}`;
}

const row = rowOf({
  ...fieldsOf(api.Batch, "callbackId", "on", "failFast", "createdAt"),
  ...fieldsOf(api.Batch, "command"),
  openUntil: api.instant(),
  asked: api.text(),
});

export function writeOfBatch({ tenantId, id }: BatchOf, record: BatchRecord): RecordWrite {
  return put(batchKey(tenantId, id), row.encode(record));
}

/** Undefined when the text is not a valid record. */
export function decodeBatch(text: string): BatchRecord | undefined {
  const read = row.decode(text);
  return read && { ...read, callbackId: read.callbackId as TaskId };
}

export function removalsOfBatch({ tenantId, id }: BatchOf): RecordWrite[] {
  return [remove(batchKey(tenantId, id)), remove(batchStateKey(tenantId, id))];
}

export function writeOfBatchState({ tenantId, id }: BatchOf, state: BatchState): RecordWrite {
  const { phase, total, pending, succeeded, failed, cancelled, failure, endedMs, chore } = state;
  const numbers = [total, pending, succeeded, failed, cancelled, endedMs];
  const failed1 = failure === undefined ? null : [failure.taskId, failure.error];
  return put(batchStateKey(tenantId, id), JSON.stringify([phase, chore, numbers, failed1]));
}

/** Undefined when the text is not a valid record. */
export function decodeBatchState(text: string): BatchState | undefined {
  const read = parseRecord(text);
  if (!Array.isArray(read) || read.length !== 4) return undefined;
  const [phase, chore, numbers, failure] = read as unknown[];
  if (!batchPhases.includes(phase as never) || !batchChores.includes(chore as never))
    return undefined;
  if (!Array.isArray(numbers) || numbers.length !== 6) return undefined;
  if (!numbers.every(Number.isSafeInteger)) return undefined;
  const [total, pending, succeeded, failed, cancelled, endedMs] = numbers as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const [taskId, error] = (failure ?? []) as [TaskId, string];
  return {
    phase: phase as BatchState["phase"],
    chore: chore as BatchState["chore"],
    total,
    pending,
    succeeded,
    failed,
    cancelled,
    endedMs,
    failure: failure === null ? undefined : { taskId, error },
  };
}

/** When a batch expires or has something left to do, as a key of the index of moments. */
export function dueWrites(
  { tenantId, id }: BatchOf,
  beforeMs: number | undefined,
  afterMs: number | undefined,
): RecordWrite[] {
  if (beforeMs === afterMs) return [];
  return [
    ...(beforeMs === undefined ? [] : [remove(batchDueKey(beforeMs, tenantId, id))]),
    ...(afterMs === undefined ? [] : [put(batchDueKey(afterMs, tenantId, id), "")]),
  ];
}
