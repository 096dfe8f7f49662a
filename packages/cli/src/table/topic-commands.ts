/** The rows of commands for topics. */
import type { ArgumentRow, CommandRow } from "../command.ts";

const topic: ArgumentRow = { name: "topic", about: "The name of the topic, which is its queue's." };
const administrator = "It needs an administrator's token.";

export const topicCommands: readonly CommandRow[] = [
  {
    name: "topics set",
    group: "repair",
    about: "Gives a queue a policy of its own, or changes it.",
    details: ["What is not given is reset: the command states the whole policy.", administrator],
    arguments: [topic],
    options: [
      {
        name: "max-attempts",
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
        value: "number",
        about: "How many tasks may be with workers at a time; default: any number.",
      },
      {
        name: "retention",
        value: "time",
        about: "How long finished tasks are kept; default: as the server is set.",
      },
      {
        name: "dead-letters",
        value: "queue",
        about: "The queue that gets a copy of dead letters.",
      },
    ],
    connects: true,
    examples: [
      {
        line: "topics set resize --max-attempts 3 --max-consumers 10 --dead-letters resize-dead",
        about: "ten at a time",
      },
    ],
    run: async (call) => (await import("../commands/topics.ts")).set(call),
  },
  {
    name: "topics list",
    group: "repair",
    about: "Lists the queues that have a policy of their own.",
    details: [administrator],
    connects: true,
    run: async (call) => (await import("../commands/topics.ts")).list(call),
  },
  {
    name: "topics get",
    group: "repair",
    about: "Shows the policy of a queue.",
    details: [administrator],
    arguments: [topic],
    connects: true,
    run: async (call) => (await import("../commands/topics.ts")).get(call),
  },
  {
    name: "topics delete",
    group: "repair",
    about: "Takes its policy from a queue; tasks stay, and the settings of the server apply.",
    details: [administrator],
    arguments: [topic],
    connects: true,
    run: async (call) => (await import("../commands/topics.ts")).remove(call),
  },
];
