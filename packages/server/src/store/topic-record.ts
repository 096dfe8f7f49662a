/** A topic as text: the policy of a queue. */
import { put, remove } from "@codeq/engine";
import type { TenantId } from "@codeq/queue";
import { topicKey } from "./keys.ts";
import { parseRecord } from "./parse-record.ts";
import type { QueueName, RecordWrite } from "./store.ts";

export interface TopicPolicy {
  /** The priorities that tasks may have, ascending. */
  readonly priorityTiers: readonly number[];
  /** Of tasks that say nothing of it. */
  readonly maxAttempts: number;
  /** The queue that gets a copy of every dead letter; empty for none. */
  readonly deadLetterTopicRef: string;
  /** How long finished tasks are kept; 0 for what the server says. */
  readonly retentionSeconds: number;
  /** How many tasks may be with workers at a time; 0 for any number. */
  readonly maxConsumers: number;
}

export interface Topic extends QueueName {
  readonly policy: TopicPolicy;
  /** Grows with every change of the policy. */
  readonly version: number;
  readonly createdMs: number;
  readonly updatedMs: number;
}

export function writeOfTopic(topic: Topic): RecordWrite {
  return put(topicKey(topic.name, topic.tenantId), encodeTopic(topic));
}

export function removalOfTopic({ name, tenantId }: QueueName): RecordWrite {
  return remove(topicKey(name, tenantId));
}

/** What a new policy makes of the topic that there is. */
export function nextTopic(
  of: QueueName,
  before: Topic | undefined,
  { policy, nowMs }: { readonly policy: TopicPolicy; readonly nowMs: number },
): Topic {
  const { tenantId, name } = of;
  if (before === undefined) {
    return { tenantId, name, policy, version: 1, createdMs: nowMs, updatedMs: nowMs };
  }
  if (isSame(before.policy, policy)) return before;
  return { ...before, policy, version: before.version + 1, updatedMs: nowMs };
}

function isSame(one: TopicPolicy, other: TopicPolicy): boolean {
  return JSON.stringify(rowOf(one)) === JSON.stringify(rowOf(other));
}

function rowOf(policy: TopicPolicy): readonly unknown[] {
  const { priorityTiers, maxAttempts, deadLetterTopicRef, retentionSeconds, maxConsumers } = policy;
  return [priorityTiers, maxAttempts, deadLetterTopicRef, retentionSeconds, maxConsumers];
}

function encodeTopic({ policy, version, createdMs, updatedMs }: Topic): string {
  return JSON.stringify([...rowOf(policy), version, createdMs, updatedMs]);
}

/** Undefined for what is no record. */
export function decodeTopic(
  { name, tenantId }: { readonly name: string; readonly tenantId: TenantId },
  text: string,
): Topic | undefined {
  const row = parseRecord(text);
  if (!isRow(row)) return undefined;
  const [priorityTiers, maxAttempts, deadLetterTopicRef, retentionSeconds, ...rest] = row;
  const [maxConsumers, version, createdMs, updatedMs] = rest;
  const policy = {
    priorityTiers,
    maxAttempts,
    deadLetterTopicRef,
    retentionSeconds,
    maxConsumers,
  };
  return { name, tenantId, policy, version, createdMs, updatedMs };
}

type Row = readonly [
  priorityTiers: readonly number[],
  maxAttempts: number,
  deadLetterTopicRef: string,
  retentionSeconds: number,
  maxConsumers: number,
  version: number,
  createdMs: number,
  updatedMs: number,
];

function isRow(row: unknown): row is Row {
  if (!Array.isArray(row) || row.length !== 8) return false;
  const [tiers, maxAttempts, ref, ...numbers] = row as unknown[];
  return (
    Array.isArray(tiers) &&
    [...tiers, maxAttempts, ...numbers].every((each) => Number.isSafeInteger(each)) &&
    typeof ref === "string"
  );
}
