/**
 * Topics: the policies that administrators give to queues, under the names of the queues. The broker applies
 * them: default attempts, allowed priorities, retention, the number of leased tasks, and the queue for dead
 * letters. A queue without a topic uses the settings of the server.
 */
import { limits } from "@codeq/protocol";
import type { PutTopic } from "../broker/queue.ts";
import type { Topic, TopicPolicy } from "../store/topic-record.ts";
import { type Answer, type Operation, type Refusal, refusal } from "./operation.ts";
import { type PageInput, pageLimitOf } from "./page-limit.ts";

export interface PutTopicInput extends TopicPolicy {
  readonly name: string;
}

const rate = { scope: "admin", operation: "tasks" } as const;

export const putTopic: Operation<PutTopicInput, PutTopic> = {
  name: "put_topic",
  access: "admin",
  scope: undefined,
  rate,
  audit: {
    of: "all",
    target: ({ name }) => name,
    detail: ({ topic }) => `version ${topic.version}: ${JSON.stringify(topic.policy)}`,
  },
  run: async ({ queue }, call, { name, ...wanted }) => {
    const problem = problemOfName(name) ?? problemOfPolicy(name, wanted);
    if (problem !== undefined) return problem;
    const { tenantId } = call.identity;
    const topics = await queue.topicsOf(tenantId);
    const isNew = topics.every((each) => each.name !== name);
    if (isNew && topics.length >= limits.topicsPerTenantMax) return refusal("too_many_topics");
    const policy = { ...wanted, priorityTiers: wanted.priorityTiers.toSorted((a, b) => a - b) };
    return { ok: true, value: await queue.putTopic({ tenantId, name }, policy) };
  },
};

export const getTopic: Operation<{ readonly name: string }, Topic> = {
  name: "get_topic",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants", target: ({ name }) => name },
  run: async ({ queue }, call, { name }) => {
    const problem = problemOfName(name);
    if (problem !== undefined) return problem;
    const { tenantId } = call.identity;
    const topics = await queue.topicsOf(tenantId);
    const topic = topics.find((each) => each.name === name);
    if (topic !== undefined) return { ok: true, value: topic };
    return refusal("topic_not_found", `queue topic "${tenantId}.${name}" not found`);
  },
};

export interface TopicPage {
  readonly topics: readonly Topic[];
  readonly next: string | undefined;
}

export const listTopics: Operation<PageInput, TopicPage> = {
  name: "list_topics",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ queue }, call, input) => {
    const limit = pageLimitOf(input);
    if (!limit.ok) return limit;
    const { after } = input;
    if (after !== "" && problemOfName(after) !== undefined) {
      return refusal("invalid_argument", "invalid 'after' (use 'next' of the previous page)");
    }
    const topics = await queue.topicsOf(call.identity.tenantId);
    const behind = topics.filter(({ name }) => name > after);
    const found = behind.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const page = found.slice(0, limit.value);
    const next = found.length > page.length ? page.at(-1)?.name : undefined;
    return { ok: true, value: { topics: page, next } };
  },
};

export interface DeleteTopicInput {
  readonly name: string;
  /** Has to be `Delete`, so that nothing is deleted by a slip. */
  readonly deletionPolicy: string;
}

export const deleteTopic: Operation<DeleteTopicInput, undefined> = {
  name: "delete_topic",
  access: "admin",
  scope: undefined,
  rate,
  audit: { of: "all", target: ({ name }) => name },
  run: async ({ queue }, call, { name, deletionPolicy }): Promise<Answer<undefined>> => {
    const problem = problemOfName(name);
    if (problem !== undefined) return problem;
    if (deletionPolicy !== "Delete") {
      return refusal("invalid_argument", "deletionPolicy=Delete is required");
    }
    await queue.deleteTopic({ tenantId: call.identity.tenantId, name });
    return { ok: true, value: undefined };
  },
};

function invalid(field: string, message: string): Refusal {
  return { ...refusal("invalid_topic", `invalid ${field}: ${message}`), details: { field } };
}

const label = "at most 63 lower-case letters, digits and dashes, with none at the ends";

function problemOfName(name: string): Refusal | undefined {
  return limits.topicPattern.test(name) ? undefined : invalid("topicName", `must be ${label}`);
}

function problemOfPolicy(name: string, policy: TopicPolicy): Refusal | undefined {
  const { priorityTiers: tiers, deadLetterTopicRef: ref } = policy;
  const isTier = (tier: number): boolean =>
    Number.isSafeInteger(tier) && tier >= 0 && tier <= limits.topicTierMax;
  if (tiers.length === 0 || tiers.length > limits.topicTiersMax || !tiers.every(isTier)) {
    const { topicTiersMax, topicTierMax } = limits;
    return invalid(
      "priorityTiers",
      `must be 1 to ${topicTiersMax} numbers from 0 to ${topicTierMax}`,
    );
  }
  if (new Set(tiers).size < tiers.length) return invalid("priorityTiers", "must be unique");
  if (ref !== "" && !limits.topicPattern.test(ref)) {
    return invalid("deadLetterTopicRef", `must be ${label}`);
  }
  if (ref === name) return invalid("deadLetterTopicRef", "must be another topic");
  const ranges = [
    ["maxAttempts", 1, limits.topicAttemptsMax],
    ["retentionSeconds", 0, limits.topicRetentionSecondsMax],
    ["maxConsumers", 0, limits.topicConsumersMax],
  ] as const;
  for (const [field, min, max] of ranges) {
    const value = policy[field];
    const isGood = Number.isSafeInteger(value) && value >= min && value <= max;
    if (!isGood) return invalid(field, `must be from ${min} to ${max}`);
  }
  return undefined;
}
