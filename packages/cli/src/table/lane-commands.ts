/** The rows of commands for lanes. */
import type { ArgumentRow, CommandRow } from "../command.ts";
import { interval } from "../shared-options.ts";
import { commandsOf } from "./commands-of.ts";
import { jobRate } from "./repair-commands.ts";

const queue: ArgumentRow = { name: "queue", about: "The name of the queue.", isQueue: true };
const lane: ArgumentRow = { name: "lane", about: "The lane, such as a customer." };
const of = [queue, lane];
const job = [jobRate, { name: "dry-run", about: "Only count the tasks; change nothing." }];

export const laneCommands: readonly CommandRow[] = commandsOf(
  { group: "repair", details: ["It needs an administrator's token."] },
  () => import("../commands/queues/lanes.ts"),
  {
    lanes: {
      about: "Lists the lanes of a queue, those with the most ready tasks first.",
      arguments: [queue],
      options: [
        { name: "lane", value: "lane", about: "Only this lane." },
        { name: "limit", value: "number", about: "Number of lanes to show (default: 100)." },
      ],
      details: [
        "A lane without tasks, times and limits is not listed. SHARE is of the units that were claimed with",
        "a lane in the last minutes, OLDEST when the next task was created.",
      ],
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
          about:
            "How many times the share of a lane with the weight 1; default: as in the topic, or 1.",
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
    "lanes drain": {
      about: "Pauses a lane, and waits until no worker has a task of it.",
      arguments: of,
      options: [
        { name: "reason", value: "text", about: "The reason, shown with the lane." },
        interval,
      ],
    },
    "lanes move": {
      about: "Moves the waiting tasks of a lane to another queue; they keep their lane.",
      arguments: of,
      options: [
        { name: "to", sets: "moveTo", value: "command", about: "The other queue.", isQueue: true },
        ...job,
      ],
    },
    "lanes purge": {
      about: "Cancels all tasks of a lane that wait or run.",
      arguments: of,
      options: job,
      examples: [{ line: "lanes purge send acme --dry-run", about: "how many would be cancelled" }],
    },
  },
);
