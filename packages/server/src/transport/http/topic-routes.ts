/** Routes for topics: the policies of queues. */
import { limits } from "@codeq/protocol";
import { operations } from "../../operations/index.ts";
import type { Topic } from "../../store/topic-record.ts";
import { TopicBody } from "./bodies.ts";
import type { BodyOf } from "./json-body.ts";
import type { JsonCodec } from "./json-codec.ts";
import { pageIn } from "./page-query.ts";
import { pageFields, textField } from "./query.ts";
import { redirected } from "./redirects.ts";
import { type HttpRequest, json, route } from "./route.ts";

const base = "/v1/codeq/admin/topics";
const params = { topicName: "The name of the topic, which is that of its queue." };

function nameIn({ params }: HttpRequest): string {
  return params["topicName"] ?? "";
}

export const topicRoutes = [
  route({
    method: "PUT",
    path: `${base}/:topicName`,
    redirects: true,
    operation: operations.putTopic,
    name: "putTopic",
    summary: "Create a topic or change its policy",
    about: "The policy applies to tasks from now on. The same policy again changes nothing.",
    params,
    body: TopicBody,
    invalidBody: "invalid request body",
    bodyBytesMax: limits.topicBodyBytesMax,
    refusals: ["invalid_topic", "too_many_topics"],
    replies: {
      ...redirected,
      200: { about: "The topic was there.", schema: "Topic" },
      201: { about: "The topic is new.", schema: "Topic" },
    },
    input: (request) => {
      const fields = request.body as BodyOf<typeof TopicBody>;
      return {
        ok: true,
        value: {
          name: nameIn(request),
          priorityTiers: fields.priorityTiers ?? [],
          maxAttempts: fields.maxAttempts ?? 0,
          deadLetterTopicRef: fields.deadLetterTopicRef ?? "",
          retentionSeconds: fields.retentionSeconds ?? 0,
          maxConsumers: fields.maxConsumers ?? 0,
        },
      };
    },
    reply: ({ topic, isNew }, codec) =>
      json(JSON.stringify(topicFields(topic, codec)), isNew ? 201 : 200),
  }),
  route({
    method: "GET",
    path: `${base}/:topicName`,
    operation: operations.getTopic,
    name: "getTopic",
    summary: "Get a topic",
    params,
    refusals: ["invalid_topic", "topic_not_found"],
    replies: { 200: { about: "The topic.", schema: "Topic" } },
    input: (request) => ({ ok: true, value: { name: nameIn(request) } }),
    reply: (topic, codec) => json(JSON.stringify(topicFields(topic, codec))),
  }),
  route({
    method: "GET",
    path: base,
    operation: operations.listTopics,
    name: "listTopics",
    summary: "List topics",
    query: pageFields,
    replies: { 200: { about: "In the order of their names.", schema: "Topics" } },
    input: (request) => ({ ok: true, value: pageIn(request) }),
    reply: ({ topics, next }, codec) =>
      json(JSON.stringify({ topics: topics.map((each) => topicFields(each, codec)), next })),
  }),
  route({
    method: "DELETE",
    path: `${base}/:topicName`,
    redirects: true,
    operation: operations.deleteTopic,
    name: "deleteTopic",
    summary: "Delete a topic",
    about: "Its queue and tasks stay, with the settings of the server.",
    params,
    query: { deletionPolicy: textField("Has to be `Delete`.") },
    refusals: ["invalid_topic"],
    replies: {
      ...redirected,
      204: { about: "There is no such topic, or none any more." },
    },
    input: (request) => {
      const deletionPolicy = String(request.query["deletionPolicy"] ?? "");
      return { ok: true, value: { name: nameIn(request), deletionPolicy } };
    },
    reply: () => ({ status: 204, body: undefined }),
  }),
] as const;

function topicFields(topic: Topic, codec: JsonCodec): object {
  const { tenantId, name, policy, version } = topic;
  const { priorityTiers, maxAttempts, deadLetterTopicRef, retentionSeconds, maxConsumers } = policy;
  return {
    topicId: `${tenantId}.${name}`,
    tenantId,
    topicName: name,
    policy: {
      priorityTiers,
      maxAttempts,
      ...(deadLetterTopicRef === "" ? {} : { deadLetterTopicRef }),
      ...(retentionSeconds === 0 ? {} : { retentionSeconds }),
      ...(maxConsumers === 0 ? {} : { maxConsumers }),
    },
    version,
    createdAt: codec.instant(topic.createdMs),
    updatedAt: codec.instant(topic.updatedMs),
  };
}
