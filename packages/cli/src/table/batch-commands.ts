/** The rows of commands for batches. */
import type { ArgumentRow, CommandRow } from "../command.ts";
import { commandsOf } from "./commands-of.ts";
import { taskCommands } from "./task-commands.ts";

const batch: ArgumentRow = { name: "batch", about: "The id of the batch." };
const administrator = "It needs an administrator's token.";
const payload: ArgumentRow = {
  name: "payload",
  about: "JSON text, - for standard input, or @file.",
  optional: true,
};
/** The options of `enqueue`. */
const ofMembers = taskCommands
  .filter(({ name }) => name === "enqueue")
  .flatMap(({ options = [] }) => options)
  .filter(({ name }) => name !== "batch");

export const batchCommands: readonly CommandRow[] = commandsOf(
  { group: "tasks" },
  () => import("../commands/tasks/batches.ts"),
  {
    "batches create": {
      about: "Creates a batch, which is open; its callback waits for the end of its members.",
      details: ["Running the command twice creates one batch."],
      arguments: [
        batch,
        { name: "queue", about: "The queue of the callback.", isQueue: true },
        { ...payload, about: "The payload of the callback, as with enqueue." },
      ],
      options: [
        {
          name: "on",
          sets: "on",
          value: "condition",
          choices: ["success", "end"],
          about: "Run the callback if all members succeeded (default), or when all have ended.",
        },
        {
          name: "fail-fast",
          sets: "failFast",
          about: "The first failure seals the batch and cancels the other members.",
        },
        {
          name: "open-for",
          sets: "openSeconds",
          value: "time",
          about: "How long it may stay open (default: 24h); then it expires.",
        },
        { name: "priority", sets: "priority", value: "0-9", about: "Of the callback." },
        { name: "webhook", sets: "webhook", value: "url", about: "URL that gets the result." },
        { name: "tag", sets: "tags", value: "tag", multiple: true, about: "Of the callback." },
        { name: "text", about: "Treat the payload as plain text and send it as a JSON string." },
      ],
      examples: [
        { line: "batches create import-7 publish '{\"file\":7}'", about: "then add members" },
      ],
    },
    "batches add": {
      about: "Adds a task to an open batch, or a task for every line.",
      arguments: [
        batch,
        { name: "queue", about: "The queue of the task.", isQueue: true },
        payload,
      ],
      options: ofMembers,
      examples: [
        {
          line: "batches add import-7 load @rows.jsonl --lines",
          about: "a member for every line of a file",
        },
      ],
    },
    "batches seal": {
      about: "Seals a batch: it takes no more members, and its callback waits for those it has.",
      arguments: [batch],
    },
    "batches list": { about: "Lists batches.", details: [administrator] },
    "batches get": {
      about: "Shows a batch: its phase, and how many members have ended.",
      arguments: [batch],
    },
    "batches members": {
      about: "Lists the members of a batch with their results.",
      arguments: [batch],
      options: [
        { name: "failed", about: "Only members that failed." },
        { name: "limit", value: "number", about: "How many at most (default: all)." },
      ],
    },
    "batches replay": {
      about: "Replays the failed members of a batch, as a bulk job.",
      details: ["If the callback has not run, it waits for them again.", administrator],
      arguments: [batch],
      options: [
        { name: "rate", sets: "ratePerSecond", value: "number", about: "Tasks a second." },
        { name: "dry-run", about: "Only count the members that would be replayed." },
      ],
    },
    "batches cancel": {
      about: "Cancels a batch: its callback now, and its members in the background.",
      arguments: [batch],
    },
  },
);
