/** The rows of commands that users of the Go command line have in their scripts. */
import type { CommandRow } from "../command.ts";

export const goCommands: readonly CommandRow[] = [
  {
    name: "task create",
    group: "go",
    about: "Creates a task, like enqueue.",
    options: [
      { name: "event", value: "command", about: "The name of the work (required)." },
      { name: "payload", value: "json", about: "The payload (required)." },
      { name: "priority", value: "number", about: "Priority from 0 to 9, higher first." },
      { name: "webhook", value: "url", about: "URL that gets the result." },
      {
        name: "max-attempts",
        value: "number",
        about: "Attempts before the task becomes a dead letter.",
      },
      {
        name: "idempotency-key",
        value: "key",
        about: "Idempotency key; the same key creates no second task.",
      },
      { name: "run-at", value: "instant", about: "Start at this time." },
      { name: "delay-seconds", value: "number", about: "Start after this time." },
    ],
    connects: true,
    run: async (call) => (await import("./go-tasks.ts")).create(call),
  },
  {
    name: "task get",
    group: "go",
    about: "Shows a task, like get --json.",
    arguments: [{ name: "id", about: "The id of a task." }],
    connects: true,
    run: async (call) => (await import("../commands/tasks/task.ts")).show(call),
  },
  {
    name: "task result",
    group: "go",
    about: "Shows the result of a task, like result --json; exits with 0 even if the task failed.",
    arguments: [{ name: "id", about: "The id of a task." }],
    connects: true,
    run: async (call) => (await import("./go-tasks.ts")).result(call),
  },
  {
    name: "worker start",
    group: "go",
    about: "Claims tasks and acknowledges them without doing any work.",
    options: [
      {
        name: "events",
        value: "commands",
        about: "Queues to claim from, separated by commas (required).",
      },
      { name: "concurrency", value: "number", about: "Claims at a time (default: 1)." },
      { name: "lease-seconds", value: "number", about: "Length of a lease (default: 60)." },
      { name: "wait-seconds", value: "number", about: "How long a claim waits (default: 10)." },
      {
        name: "ack",
        value: "how",
        choices: ["complete", "abandon", "nack", "none"],
        about: "What to do with a task (default: abandon).",
      },
      {
        name: "nack-delay",
        value: "number",
        about: "Delay before the retry, in seconds (default: 5).",
      },
    ],
    connects: true,
    run: async (call) => (await import("./go-tasks.ts")).start(call),
  },
  {
    name: "queue inspect",
    group: "go",
    about: "Counts the tasks of one queue, on one line.",
    arguments: [{ name: "event", about: "The queue." }],
    connects: true,
    run: async (call) => (await import("../commands/queues/queues.ts")).inspect(call),
  },
];
