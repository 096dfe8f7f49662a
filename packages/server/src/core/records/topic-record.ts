/** A topic as text: the policy of a queue. */
import { put, remove } from "@codeq/engine";
import * as api from "@codeq/protocol/api";
import type { TenantId } from "@codeq/queue";
import { topicKey } from "../store/keys.ts";
import { fieldsOf, rowOf } from "../store/row-of.ts";
import type { QueueName, RecordWrite } from "../store/store.ts";

export type TopicPolicy = api.KeptOf<typeof api.TopicPolicy>;
export type Topic = Omit<api.KeptOf<typeof api.Topic>, "topicId" | keyof QueueName> & QueueName;

const row = rowOf({
  ...fieldsOf(api.TopicPolicy, "priorityTiers", "maxAttempts", "deadLetterTopicRef"),
  ...fieldsOf(api.TopicPolicy, "retentionSeconds", "maxConsumers"),
  ...fieldsOf(api.Topic, "version", "createdAt", "updatedAt"),
  ...fieldsOf(api.TopicPolicy, "rate", "lanes", "placement"),
});

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
  if (encodeTopic({ ...before, policy }) === encodeTopic(before)) return before;
  return { ...before, policy, version: before.version + 1, updatedMs: nowMs };
}

function encodeTopic({ policy, ...topic }: Topic): string {
  return row.encode({ ...policy, ...topic });
}

/** Undefined for what is no record. */
export function decodeTopic(
  { name, tenantId }: { readonly name: string; readonly tenantId: TenantId },
  text: string,
): Topic | undefined {
  const read = row.decode(text);
  if (read === undefined) return undefined;
  const { version, createdMs, updatedMs, ...policy } = read;
  return { name, tenantId, policy, version, createdMs, updatedMs };
}
