/** Rows of the commands that users of the Go command line have in their scripts. */
import type { CommandRow } from "../command.ts";

export const goCommands: readonly CommandRow[] = [
  {
    name: "task create",
    group: "go",
    about: "Like enqueue.",
    options: [
      { name: "event", value: "command", about: "The name of the work; required." },
      { name: "payload", value: "json", about: "The payload; required." },
      { name: "priority", value: "number", about: "0 to 9, higher first." },
      { name: "webhook", value: "url", about: "Where the result is posted to." },
      { name: "max-attempts", value: "number", about: "Deliveries before it is dead." },
      { name: "idempotency-key", value: "key", about: "The same key makes no second task." },
      { name: "run-at", value: "instant", about: "Not before this moment." },
      { name: "delay-seconds", value: "number", about: "Not before this time has passed." },
    ],
    connects: true,
    run: async (call) => (await import("./go-tasks.ts")).create(call),
  },
  {
    name: "task get",
    group: "go",
    about: "Like get --json.",
    arguments: [{ name: "id", about: "The id of a task." }],
    connects: true,
    run: async (call) => (await import("../commands/get.ts")).run(call),
  },
  {
    name: "task result",
    group: "go",
    about: "Like result --json, whatever the result says.",
    arguments: [{ name: "id", about: "The id of a task." }],
    connects: true,
    run: async (call) => (await import("./go-tasks.ts")).result(call),
  },
  {
    name: "worker start",
    group: "go",
    about: "Claims tasks and acknowledges them without doing any work.",
    options: [
      { name: "events", value: "commands", about: "Queues to work on, with commas; required." },
      { name: "concurrency", value: "number", about: "Claims at a time; 1 unless told." },
      { name: "lease-seconds", value: "number", about: "Length of a lease; 60 unless told." },
      { name: "wait-seconds", value: "number", about: "How long a claim waits; 10 unless told." },
      {
        name: "ack",
        value: "how",
        choices: ["complete", "abandon", "nack", "none"],
        about: "What becomes of a task; abandon unless told.",
      },
      { name: "nack-delay", value: "number", about: "Seconds before the next try; 5 unless told." },
    ],
    connects: true,
    run: async (call) => (await import("./go-worker.ts")).start(call),
  },
  {
    name: "queue inspect",
    group: "go",
    about: "Like queues, for one queue and on one line.",
    arguments: [{ name: "event", about: "The queue." }],
    connects: true,
    run: async (call) => (await import("../commands/queues.ts")).inspect(call),
  },
];
