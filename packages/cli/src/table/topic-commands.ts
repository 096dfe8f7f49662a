/** The rows of commands for topics. */
import type { ArgumentRow, CommandRow } from "../command.ts";
import { commandsOn } from "./commands-on.ts";

const topic: ArgumentRow = { name: "topic", about: "The name of the topic, which is its queue's." };
const administrator = "It needs an administrator's token.";

export const topicCommands: readonly CommandRow[] = commandsOn(
  "topics",
  { group: "repair", details: [administrator] },
  () => import("../commands/topics.ts"),
  {
    set: {
      about: "Gives a queue a policy of its own, or changes it.",
      details: ["What is not given is reset: the command states the whole policy.", administrator],
      arguments: [topic],
      options: [
        {
          name: "max-attempts",
          sets: "maxAttempts",
          value: "number",
          about: "Attempts of a task that does not say how many.",
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
          about: "How many tasks may be with workers at a time; default: any number.",
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
    list: { about: "Lists the queues that have a policy of their own." },
    get: { about: "Shows the policy of a queue.", arguments: [topic] },
    delete: {
      about: "Takes its policy from a queue; tasks stay, and the settings of the server apply.",
      arguments: [topic],
    },
  },
);
