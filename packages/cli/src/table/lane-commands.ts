/** The rows of commands for lanes. */
import type { ArgumentRow, CommandRow } from "../command.ts";
import { commandsOf } from "./commands-of.ts";

const queue: ArgumentRow = { name: "queue", about: "The name of the queue.", isQueue: true };
const lane: ArgumentRow = { name: "lane", about: "The lane, such as a customer." };
const of = [queue, lane];

export const laneCommands: readonly CommandRow[] = commandsOf(
  { group: "repair", details: ["It needs an administrator's token."] },
  () => import("../commands/lanes.ts"),
  {
    "lanes list": {
      about: "Lists the lanes of a queue, those with the most ready tasks first.",
      arguments: [queue],
      details: ["A lane without tasks, times and limits is not listed."],
    },
    "lanes set": {
      about: "Gives one lane limits of its own; what is not given is as in the topic.",
      arguments: of,
      options: [
        {
          name: "concurrency",
          sets: "concurrency",
          value: "number",
          about: "How many tasks may be with workers at a time; 0 for any number.",
        },
        {
          name: "rate",
          value: "rate",
          about: "Units that the lane may spend, such as 100/1m or 100/1m/20 (burst).",
        },
        {
          name: "weight",
          sets: "weight",
          value: "number",
          about: "How many times the share of another lane; default: 1.",
        },
      ],
      examples: [{ line: "lanes set send acme --concurrency 10", about: "a large customer" }],
    },
    "lanes delete": { about: "Takes the limits of one lane back.", arguments: of },
    "lanes pause": {
      about: "Hands out no task of a lane until it is resumed.",
      arguments: of,
      options: [{ name: "reason", value: "text", about: "The reason, shown with the lane." }],
    },
    "lanes resume": { about: "Hands out the tasks of a paused lane again.", arguments: of },
  },
);
