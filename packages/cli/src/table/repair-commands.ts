/** Rows of the commands by which operators find tasks and do something about them. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { yes } from "../shared-options.ts";

const id: ArgumentRow = {
  name: "id",
  about: "The id of a task, or at least 4 characters of its beginning or end.",
};
const filters: readonly OptionRow[] = [
  { name: "priority", value: "0-9", about: "Of this priority." },
  { name: "worker-id", value: "id", about: "That this worker has or finished." },
  { name: "error", value: "text", about: "With this text in the error, letter case ignored." },
  { name: "group", value: "id", about: "Of this failure group; dlq groups lists them." },
  { name: "key", value: "key", about: "With this idempotency key." },
  {
    name: "payload",
    value: "path:value",
    about: "With this value in the payload, such as customer.id:42.",
  },
  { name: "tag", value: "tag", multiple: true, about: "With this tag; several: with all of them." },
  { name: "created-after", value: "instant", about: "Created at this moment or later." },
  { name: "created-before", value: "instant", about: "Created before this moment." },
  { name: "ended-after", value: "instant", about: "Ended at this moment or later." },
  { name: "ended-before", value: "instant", about: "Ended before this moment." },
];
const ofCommand: OptionRow = { name: "command", value: "command", about: "Of this queue." };
const listing: readonly OptionRow[] = [
  { name: "limit", value: "number", about: "How many to show; default: 50." },
  { name: "oldest", about: "The oldest first; default: the newest first." },
];
const bulk: readonly OptionRow[] = [
  ofCommand,
  ...filters,
  { name: "all", about: "All dead letters of the tenant." },
  { name: "limit", value: "number", about: "At most this many at once; default: 1000." },
  { name: "dry-run", about: "Count them, and change nothing." },
];
const oneQueue: ArgumentRow = { name: "command", about: "Only this queue.", optional: true };
const administrator = "Of the token's tenant; the token has to be an administrator's.";

const waits = "A task that a worker has, or that has ended, is refused.";

export const repairCommands: readonly CommandRow[] = [
  {
    name: "tasks",
    group: "repair",
    about: "Lists tasks that match a filter.",
    details: [administrator, "Ids are cut to their last eight characters; commands accept that."],
    arguments: [oneQueue],
    options: [
      {
        name: "place",
        value: "place",
        choices: ["ready", "delayed", "leased", "dead", "done", "failed"],
        about: "Where they are.",
      },
      ...filters,
      ...listing,
    ],
    connects: true,
    examples: [
      { line: "tasks mail --place failed --error timeout", about: "what failed, and why" },
      { line: "tasks --payload customer.id:42", about: "everything of a customer" },
    ],
    run: async (call) => (await import("../commands/tasks.ts")).run(call),
  },
  {
    name: "dlq list",
    group: "repair",
    about: "Lists dead letters: tasks that used up their attempts.",
    details: [administrator],
    arguments: [oneQueue],
    options: [...filters, ...listing],
    connects: true,
    run: async (call) => (await import("../commands/dead-letters.ts")).list(call),
  },
  {
    name: "dlq show",
    group: "repair",
    about: "Shows a dead letter, or any other task, with its payload and error.",
    arguments: [id],
    connects: true,
    run: async (call) => (await import("../commands/dead-letters.ts")).show(call),
  },
  {
    name: "dlq groups",
    group: "repair",
    about: "Groups failures by what their errors have in common.",
    details: [
      "Dead letters and failed tasks; numbers, ids, quoted text and paths in errors are left out.",
      administrator,
    ],
    arguments: [oneQueue],
    options: filters,
    connects: true,
    examples: [
      { line: "dlq groups mail", about: "what goes wrong, and how often" },
      { line: "dlq replay --group 3f2a9c1e5b7d", about: "try all of a group again" },
    ],
    run: async (call) => (await import("../commands/failure-groups.ts")).run(call),
  },
  {
    name: "dlq edit",
    group: "repair",
    about: "Makes a new task of one that has ended, with some things changed.",
    details: ["The old task stays as it is, and both name each other.", administrator],
    arguments: [
      id,
      {
        name: "payload",
        about: "JSON, - for the input, or @file; the old one unless told.",
        optional: true,
      },
    ],
    options: [
      { name: "to", value: "command", about: "Another queue." },
      { name: "priority", value: "0-9", about: "Another priority." },
      { name: "max-attempts", value: "number", about: "Deliveries before it is dead." },
      { name: "delay", value: "time", about: "Not before this time has passed." },
    ],
    connects: true,
    examples: [
      { line: `dlq edit 3f2a9c1e '{"to":"ada@example.com"}'`, about: "with a correct payload" },
    ],
    run: async (call) => (await import("../commands/dead-letters.ts")).edit(call),
  },
  {
    name: "dlq replay",
    group: "repair",
    about: "Gives dead letters all their attempts again; they keep their ids.",
    details: [administrator],
    arguments: [{ ...id, optional: true, multiple: true }],
    options: bulk,
    connects: true,
    examples: [
      { line: "dlq replay 3f2a9c1e", about: "one of them" },
      { line: "dlq replay --command mail --error 'no such host'", about: "those that match" },
    ],
    run: async (call) => (await import("../commands/dead-letters.ts")).replay(call),
  },
  {
    name: "dlq delete",
    group: "repair",
    about: "Deletes dead letters before their retention ends.",
    details: [administrator],
    arguments: [{ ...id, optional: true, multiple: true }],
    options: bulk,
    connects: true,
    run: async (call) => (await import("../commands/dead-letters.ts")).remove(call),
  },
  {
    name: "dlq purge",
    group: "repair",
    about: "Deletes all dead letters, or all of one queue, also those that are kept for ever.",
    details: [administrator],
    arguments: [oneQueue],
    options: [
      yes,
      { name: "limit", value: "number", about: "At most this many at once; default: 1000." },
      { name: "dry-run", about: "Count them, and change nothing." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/dead-letters.ts")).purge(call),
  },
  {
    name: "pause",
    group: "repair",
    about: "Stops the deliveries of a queue; tasks can still be enqueued.",
    details: ["Workers keep the tasks that they have. A pause survives restarts.", administrator],
    arguments: [{ name: "command", about: "The queue." }],
    options: [{ name: "reason", value: "text", about: "Why, for whoever looks at the queue." }],
    connects: true,
    run: async (call) => (await import("../commands/pause.ts")).pause(call),
  },
  {
    name: "resume",
    group: "repair",
    about: "Lets a paused queue go on.",
    details: [administrator],
    arguments: [{ name: "command", about: "The queue." }],
    connects: true,
    run: async (call) => (await import("../commands/pause.ts")).resume(call),
  },
  {
    name: "cancel",
    group: "repair",
    about: "Ends a task as failed with CANCELLED.",
    details: [
      "A task that waits ends at once. A worker that has it is told, and when the grace is over the",
      "task is taken away from it.",
      administrator,
    ],
    arguments: [id],
    options: [{ name: "grace", value: "time", about: "How long a worker may take; default: 30s." }],
    connects: true,
    run: async (call) => (await import("../commands/cancel.ts")).run(call),
  },
  {
    name: "move",
    group: "repair",
    about: "Moves a task that waits to another queue.",
    details: [waits, administrator],
    arguments: [id, { name: "command", about: "The queue to move it to." }],
    connects: true,
    examples: [{ line: "move 3f2a9c1e mail-slow", about: "to the back of another queue" }],
    run: async (call) => (await import("../commands/edit.ts")).move(call),
  },
  {
    name: "run-now",
    group: "repair",
    about: "Makes a delayed task ready now.",
    details: [administrator],
    arguments: [id],
    connects: true,
    run: async (call) => (await import("../commands/edit.ts")).runNow(call),
  },
  {
    name: "reschedule",
    group: "repair",
    about: "Says when a task that waits may be claimed.",
    details: [waits, administrator],
    arguments: [id],
    options: [
      { name: "delay", value: "time", about: "After this time." },
      { name: "run-at", value: "instant", about: "At this moment, such as 2030-01-02T03:04:05Z." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/edit.ts")).reschedule(call),
  },
  {
    name: "set-priority",
    group: "repair",
    about: "Changes the priority of a task that waits; it goes to the back of that priority.",
    details: [waits, administrator],
    arguments: [id, { name: "priority", about: "From 0 to 9, higher first." }],
    connects: true,
    run: async (call) => (await import("../commands/edit.ts")).setPriority(call),
  },
  {
    name: "edit",
    group: "repair",
    about: "Replaces the payload of a task that waits.",
    details: [waits, administrator],
    arguments: [id, { name: "payload", about: "JSON, - for the input, or @file." }],
    options: [{ name: "text", about: "The payload is plain text; it is sent as a JSON string." }],
    connects: true,
    run: async (call) => (await import("../commands/edit.ts")).payload(call),
  },
];
