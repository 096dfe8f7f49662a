/**
 * The shard of a task: FNV-1a of its id, 64 bits, modulo the number of shards. Ids are drawn for a given
 * shard, so that a shard chosen by idempotency key is also the shard of the task.
 */
import {
  type NewTask,
  queueOf,
  type TaskId,
  type TenantId,
  type UniqueRequest,
} from "@codeq/queue";
import { type BatchOf, taskOfAfter } from "../records/batch-record.ts";
import type { DrawId } from "../task-ids.ts";

const word = 2 ** 32;
const digits = "0123456789abcdef";
/** The prime is 2^40 + 435. */
const low = 435;

/** 64 bits in two halves, because products of larger numbers are not exact. */
interface Hash {
  high: number;
  low: number;
}

function offsetBasis(): Hash {
  return { high: 0xcbf29ce4, low: 0x84222325 };
}

function add(hash: Hash, byte: number): void {
  const mixed = (hash.low ^ byte) >>> 0;
  const product = mixed * low;
  hash.high = (hash.high * low + Math.floor(product / word) + mixed * 0x100) % word;
  hash.low = product % word;
}

function addText(hash: Hash, text: string): void {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    add(hash, code & 0xff);
    if (code > 0xff) add(hash, code >>> 8);
  }
}

function modulo({ high, low: rest }: Hash, count: number): number {
  return ((high % count) * (word % count) + (rest % count)) % count;
}

export function shardOf(id: TaskId, count: number): number {
  const hash = offsetBasis();
  addText(hash, id);
  return modulo(hash, count);
}

/** The shard of an idempotency key of a tenant. Keys that are the same for the store have the same shard. */
export function shardOfKey(tenantId: TenantId, key: string, count: number): number {
  const hash = offsetBasis();
  addText(hash, tenantId);
  add(hash, 0);
  addText(hash, key.toWellFormed());
  return modulo(hash, count);
}

/** The shard that a batch and its tasks are in. */
export function shardOfBatch({ tenantId, id }: BatchOf, count: number): number {
  const after = taskOfAfter(id);
  return after === undefined ? shardOfKey(tenantId, `batch/${id}`, count) : shardOf(after, count);
}

/**
 * What the shard of a new task is drawn from. What must be exact is in one shard: a queue with the placement `one` comes
 * first, then the limits of a lane, then a unique key, then an idempotency key. A lane is in one shard for all other
 * queues, so that a task that is moved to another queue stays in the shard of its lane.
 */
export function homeOf(
  { lane = "", unique, command, idempotencyKey }: Homed,
  isPlaced: boolean,
): string {
  if (isPlaced) return `queue\0${queueOf(command)}`;
  if (lane !== "") return `lane\0${lane.toWellFormed()}`;
  return unique === undefined ? idempotencyKey : `${queueOf(command)}\0${unique.key}`;
}

type Homed = Pick<NewTask, "lane" | "command" | "idempotencyKey"> & {
  readonly unique?: Pick<UniqueRequest, "key"> | undefined;
};

/** Draws ids that belong to one shard, by trying other last digits. */
export function idsOfShard(
  ids: DrawId,
  { shard, count }: { readonly shard: number; readonly count: number },
): DrawId {
  if (count === 1) return ids;
  return {
    next: (nowMs) => {
      for (;;) {
        const id = ids.next(nowMs);
        const front = id.slice(0, -1);
        const hash = offsetBasis();
        addText(hash, front);
        const first = digits.indexOf(id.slice(-1));
        for (let tried = 0; tried < digits.length; tried++) {
          const digit = digits[(first + tried) % digits.length] as string;
          const whole = { ...hash };
          add(whole, digit.charCodeAt(0));
          if (modulo(whole, count) === shard) return (front + digit) as TaskId;
        }
      }
    },
  };
}
