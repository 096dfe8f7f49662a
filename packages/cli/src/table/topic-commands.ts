/** The rows of commands for topics. */
import type { ArgumentRow, CommandRow } from "../command.ts";
import { commandsOf } from "./commands-of.ts";

const topic: ArgumentRow = { name: "topic", about: "The name of the topic, which is its queue's." };
const administrator = "It needs an administrator's token.";

export const topicCommands: readonly CommandRow[] = commandsOf(
  { group: "repair", details: [administrator] },
  () => import("../commands/queues/topics.ts"),
  {
    "topics set": {
      about: "Gives a queue a policy of its own, or changes it.",
      details: [
        "What is not given stays as it is. 0 takes a retention or a number of consumers back, and an empty --dead-letters",
        "the copies. Prints what changed.",
        administrator,
      ],
      arguments: [topic],
      options: [
        {
          name: "max-attempts",
          sets: "maxAttempts",
          value: "number",
          about: "Attempts of a task that does not say how many; default: 5 for a new topic.",
        },
        {
          name: "priorities",
          value: "numbers",
          multiple: true,
          about: "Priorities that tasks may have, separated by commas (default: all).",
        },
        {
          name: "max-consumers",
          sets: "maxConsumers",
          value: "number",
          about:
            "How many tasks may be with workers at a time; default: any number. Exact in a cluster with --placement one.",
        },
        {
          name: "rate",
          value: "rate",
          about:
            "Units that all tasks of the queue may spend, such as 100/1m; empty for any rate. Applies in each shard, " +
            "unless with --placement one.",
        },
        {
          name: "lane-concurrency",
          value: "number",
          about: "How many tasks of a lane may be with workers at a time; 0 for any number.",
        },
        {
          name: "lane-rate",
          value: "rate",
          about:
            "Units that a lane may spend, such as 100/1m or 100/1m/20 (burst); empty for any rate.",
        },
        {
          name: "lane-weight",
          value: "number",
          about:
            "How many times the share of a lane with the weight 1; default: 1. With 10, a lane with a weight of its own " +
            "can have less than others.",
        },
        {
          name: "placement",
          sets: "placement",
          value: "placement",
          about:
            "With one, all tasks are in one shard, and limits are exact with several shards; or spread.",
        },
        {
          name: "retention",
          sets: "retentionSeconds",
          value: "time",
          about: "How long finished tasks are kept; default: as the server is set.",
        },
        {
          name: "dead-letters",
          sets: "deadLetterTopicRef",
          value: "queue",
          about: "The queue that gets a copy of dead letters.",
        },
      ],
      examples: [
        {
          line: "topics set resize --max-attempts 3 --max-consumers 10 --dead-letters resize-dead",
          about: "ten at a time",
        },
      ],
    },
    "topics list": { about: "Lists the queues that have a policy of their own." },
    "topics get": { about: "Shows the policy of a queue.", arguments: [topic] },
    "topics delete": {
      about: "Takes its policy from a queue; tasks stay, and the settings of the server apply.",
      arguments: [topic],
    },
  },
);
