/**
 * Topics: the policies that administrators give to queues, under the names of the queues. The broker applies
 * them: default attempts, allowed priorities, retention, the number of leased tasks, and the queue for dead
 * letters. A queue without a topic uses the settings of the server.
 */
import { limits } from "@codeq/protocol";
import { api } from "@codeq/protocol/api";
import { queueOf, type TenantId } from "@codeq/queue";
import { isEmpty } from "../../core/records/counts.ts";
import type { Topic } from "../../core/records/topic-record.ts";
import { bind } from "../../edge/bind.ts";
import { refusal, type Server } from "../../edge/operation.ts";

export const putTopic = bind(api.topics.putTopic, {
  run: async ({ broker }, call, { name: spelled, ...wanted }) => {
    const name = queueOf(spelled);
    const deadLetterTopicRef = queueOf(wanted.deadLetterTopicRef);
    if (deadLetterTopicRef === name) {
      const { code, say } = api.topics.putTopic.outOfBounds;
      const field = "deadLetterTopicRef";
      return { ...refusal(code, say(field, "another topic")), details: { field } };
    }
    const { tenantId } = call.identity;
    const topics = await broker.topicsOf(tenantId);
    const before = topics.find((each) => each.name === name);
    const isNew = before === undefined;
    if (placementOf(before) !== wanted.placement && (await hasTasks(broker, { tenantId, name }))) {
      return refusal("placement_in_use");
    }
    if (isNew && topics.length >= limits.topicsPerTenantMax) return refusal("too_many_topics");
    const priorityTiers = wanted.priorityTiers.toSorted((a, b) => a - b);
    const policy = { ...wanted, deadLetterTopicRef, priorityTiers };
    return { ok: true, value: await broker.putTopic({ tenantId, name }, policy) };
  },
  audit: {
    detail: ({ topic }) => `version ${topic.version}: ${JSON.stringify(topic.policy)}`,
  },
  show: ({ topic, isNew }) => ({ status: isNew ? 201 : 200, value: shown(topic) }),
});

export const getTopic = bind(api.topics.getTopic, {
  run: async ({ broker }, call, { name }) => {
    const { tenantId } = call.identity;
    const topics = await broker.topicsOf(tenantId);
    const topic = topics.find((each) => each.name === queueOf(name));
    if (topic !== undefined) return { ok: true, value: shown(topic) };
    return refusal("topic_not_found", `queue topic "${tenantId}.${name}" not found`);
  },
});

export const listTopics = bind(api.topics.listTopics, {
  run: async ({ broker }, call, { limit, after }) => {
    const topics = await broker.topicsOf(call.identity.tenantId);
    const behind = topics.filter(({ name }) => name > after);
    const found = behind.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const page = found.slice(0, limit);
    const next = found.length > page.length ? page.at(-1)?.name : undefined;
    return { ok: true, value: { topics: page.map(shown), next } };
  },
});

export const deleteTopic = bind(api.topics.deleteTopic, {
  run: async ({ broker }, call, { name: spelled }) => {
    const { tenantId } = call.identity;
    const name = queueOf(spelled);
    const topics = await broker.topicsOf(tenantId);
    const isPlaced = placementOf(topics.find((each) => each.name === name)) === "one";
    if (isPlaced && (await hasTasks(broker, { tenantId, name }))) {
      return refusal("placement_in_use");
    }
    await broker.deleteTopic({ tenantId, name });
    return { ok: true, value: undefined };
  },
});

function placementOf(topic: Topic | undefined): Topic["policy"]["placement"] {
  return topic?.policy.placement ?? "spread";
}

/** Whether tasks of the queue would stay, or be created, in shards where no request looks for their keys. */
async function hasTasks(
  broker: Server["broker"],
  { tenantId, name }: { readonly tenantId: TenantId; readonly name: string },
): Promise<boolean> {
  if (broker.shards.length < 2) return false;
  if (await broker.schedules.hasQueue({ tenantId, name })) return true;
  const queues = await broker.queuesOf(tenantId, false);
  const counts = queues.find(({ queue }) => queue === name)?.counts;
  return counts !== undefined && !isEmpty(counts);
}

function shown(topic: Topic): Topic & { readonly topicId: string } {
  return { ...topic, topicId: `${topic.tenantId}.${topic.name}` };
}
