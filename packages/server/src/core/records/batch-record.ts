/** A batch as text, in two records: what it was created with, and its state, which the ends of members change. */
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
import { batchAwaitsKey, batchDueKey, batchInDue, batchKey, batchStateKey } from "../store/keys.ts";
import { LateWrite } from "../store/late-writes.ts";
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
  /** Tasks without a batch that take the place of members: the batch is that of a task with `after`. */
  readonly after: readonly TaskId[];
  /** The command of the callback. */
  readonly command: string;
  readonly createdMs: number;
  /** The same for every request that asks for the same. */
  readonly asked: string;
}

/** The batch of a name in the index of moments. */
export const batchNamed: (name: string) => BatchOf = batchInDue;

const ofAfter = /^after:([0-9a-f-]{36})$/;

/** The batch of a task that waits for others with `after`. */
export function batchOfAfter(id: TaskId): string {
  return `after:${id}`;
}

/** The task that waits for others; undefined for other batches. */
export function taskOfAfter(batchId: string): TaskId | undefined {
  return ofAfter.exec(batchId)?.[1] as TaskId | undefined;
}

const row = rowOf({
  ...fieldsOf(api.Batch, "callbackId", "on", "failFast", "createdAt"),
  ...fieldsOf(api.Batch, "command"),
  openUntil: api.instant(),
  asked: api.text(),
  after: api.list(api.text(), "", { none: [] }),
});

export function writeOfBatch({ tenantId, id }: BatchOf, record: BatchRecord): RecordWrite {
  return put(batchKey(tenantId, id), row.encode(record));
}

/** Undefined when the text is not a valid record. */
export function decodeBatch(text: string): BatchRecord | undefined {
  const read = row.decode(text);
  if (read === undefined) return undefined;
  const { callbackId, after } = read;
  return { ...read, callbackId: callbackId as TaskId, after: after as TaskId[] };
}

export function removalsOfBatch({ tenantId, id }: BatchOf): RecordWrite[] {
  return [remove(batchKey(tenantId, id)), remove(batchStateKey(tenantId, id))];
}

/** The tasks that a task with `after` waits for, to be found at their end. */
export function writesOfAwaited(of: BatchOf, after: readonly TaskId[]): RecordWrite[] {
  return after.map((each) => put(batchAwaitsKey(each, of.tenantId, of.id), ""));
}

export function removalsOfAwaited(of: BatchOf, after: readonly TaskId[]): RecordWrite[] {
  return after.map((each) => remove(batchAwaitsKey(each, of.tenantId, of.id)));
}

/** Where the state of a batch is stored. */
export function stateKeyOf({ tenantId, id }: BatchOf): string {
  return batchStateKey(tenantId, id);
}

export function writeOfBatchState(stateKey: string, state: BatchState): RecordWrite {
  return new LateWrite(stateKey, () => textOfState(state));
}

function textOfState(state: BatchState): string {
  const { phase, total, pending, succeeded, failed, cancelled, failure, endedMs, chore } = state;
  const first = failure === undefined ? null : [failure.taskId, failure.error];
  const numbers = [total, pending, succeeded, failed, cancelled, endedMs];
  return JSON.stringify([phase, chore, numbers, first]);
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
