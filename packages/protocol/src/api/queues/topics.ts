/** Topics: the policies of queues. */

import { endpoints, type OutOfBounds, pageOf, pageQuery } from "../../contract/endpoint.ts";
import { count, instant, like, list, object, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";
import { LanesPolicy, Rate } from "./lanes.ts";

const { topicTiersMax, topicTierMax } = limits;
const topicName = {
  pattern: limits.commandPattern,
  rule: "the name of a queue: at most 128 letters, digits, `_`, `.`, `:` and `-`, a letter or digit first",
} as const;
const range = (min: number, max: number) => ({ min, max, rule: `from ${min} to ${max}` });

/** Unknown fields are refused: a policy that is not what was meant must not be stored. */
export const TopicPolicy = object(
  {
    priorityTiers: list(
      whole("", { min: 0, max: topicTierMax }),
      "Priorities that tasks may have.",
      {
        min: 1,
        max: topicTiersMax,
        isUnique: true,
        rule: `1 to ${topicTiersMax} numbers from 0 to ${topicTierMax}`,
      },
    ),
    maxAttempts: whole(
      "Attempts of a task that does not say how many.",
      range(1, limits.topicAttemptsMax),
    ),
    deadLetterTopicRef: text("The queue that gets a copy of every dead letter.", {
      ...topicName,
      none: "",
    }),
    retentionSeconds: whole("Seconds that finished tasks are kept; 0 for what the server says.", {
      ...range(0, limits.topicRetentionSecondsMax),
      none: 0,
    }),
    maxConsumers: whole(
      "How many tasks may be leased; 0 for any number. Exact on one server, and in a cluster with the placement `one`.",
      { ...range(0, limits.topicConsumersMax), none: 0 },
    ),
    rate: like(Rate, "How fast tasks may be claimed, in each shard that has tasks of the queue.", {
      isOptional: true,
    }),
    lanes: like(LanesPolicy, "What applies to each lane of the queue.", { isOptional: true }),
    placement: text(
      "`one` creates all tasks of the queue in one shard, so that `maxConsumers` and `rate` are exact with several " +
        "shards and in a cluster; the queue then has the speed of one shard. Changes only while the queue is empty.",
      { oneOf: ["spread", "one"], none: "spread" },
    ),
  },
  { name: "TopicPolicy", about: "What a queue does with its tasks.", isClosed: true },
);

export const Topic = object(
  {
    topicId: text(),
    tenantId: text(),
    topicName: text("Also the name of the queue, in lower case.", { as: "name" }),
    policy: TopicPolicy,
    version: count("Grows with every change of the policy."),
    createdAt: instant(),
    updatedAt: instant(),
  },
  { name: "Topic", about: "A queue with a policy of its own." },
);

const outOfBounds: OutOfBounds = {
  code: "invalid_topic",
  say: (field, rule) => `invalid ${field}: must be ${rule}`,
  namesField: true,
};
const ofOne = {
  params: {
    topicName: text("The name of the topic, which is that of its queue.", {
      ...topicName,
      as: "name",
    }),
  },
  outOfBounds,
} as const;

export const topics = endpoints({
  putTopic: {
    ...ofOne,
    key: "PUT /admin/topics/:topicName",
    access: "admin",
    summary: "Create a topic or change its policy",
    about: "The policy applies to tasks from now on. The same policy again changes nothing.",
    body: TopicPolicy,
    invalidBody: "invalid request body",
    bodyBytesMax: limits.topicBodyBytesMax,
    redirects: true,
    refusals: ["invalid_topic", "too_many_topics", "placement_in_use"],
    replies: {
      200: { about: "The topic was there.", shape: Topic },
      201: { about: "The topic is new.", shape: Topic },
    },
  },
  getTopic: {
    ...ofOne,
    key: "GET /admin/topics/:topicName",
    access: "viewer",
    summary: "Get a topic",
    refusals: ["invalid_topic", "topic_not_found"],
    replies: { 200: { about: "The topic.", shape: Topic } },
  },
  listTopics: {
    key: "GET /admin/topics",
    access: "viewer",
    summary: "List topics",
    query: pageQuery(limits.commandPattern),
    replies: {
      200: { about: "In the order of their names.", shape: pageOf("Topics", "topics", Topic) },
    },
  },
  deleteTopic: {
    ...ofOne,
    key: "DELETE /admin/topics/:topicName",
    access: "admin",
    summary: "Delete a topic",
    about: "Its queue and tasks stay, with the settings of the server.",
    query: {
      // A required constant, so that no queue is deleted by accident.
      deletionPolicy: text("Has to be `Delete`.", {
        oneOf: ["Delete"],
        refusal: "deletionPolicy=Delete is required",
      }),
    },
    redirects: true,
    refusals: ["invalid_topic", "placement_in_use"],
    replies: { 204: { about: "There is no such topic, or none any more." } },
  },
});
