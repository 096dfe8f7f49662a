/** Rows of the commands about tasks and queues. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { interval } from "../shared-options.ts";

const id: ArgumentRow = { name: "id", about: "The id of a task." };
const wait: OptionRow = {
  name: "wait",
  about: "Wait until the task has ended, and print its result.",
};
const timeout: OptionRow = {
  name: "timeout",
  value: "time",
  about: "How long to wait at most; 60s unless told.",
};
const leaseToken: OptionRow = {
  name: "lease-token",
  value: "number",
  about: "Token of the lease, as get shows it; refused when the task was claimed again.",
};

export const taskCommands: readonly CommandRow[] = [
  {
    name: "enqueue",
    group: "tasks",
    about: "Puts a task into a queue.",
    details: [
      "The payload is JSON and is kept as it is written. Without one it is {}. A time is a number",
      "of seconds, or a number with ms, s, m, h or d.",
    ],
    arguments: [
      { name: "command", about: "The name of the work, which names the queue." },
      { name: "payload", about: "JSON, - for the input, or @file.", optional: true },
    ],
    options: [
      wait,
      timeout,
      { name: "priority", value: "0-9", about: "Higher first; 0 unless told." },
      { name: "delay", value: "time", about: "Not before this time has passed." },
      {
        name: "run-at",
        value: "instant",
        about: "Not before this moment, such as 2030-01-02T03:04:05Z.",
      },
      { name: "max-attempts", value: "number", about: "Deliveries before it is dead." },
      { name: "key", value: "key", about: "Idempotency key: the same key makes no second task." },
      { name: "webhook", value: "url", about: "Where the result is posted to." },
      { name: "tag", value: "tag", multiple: true, about: "Label to find the task by; up to 16." },
      { name: "text", about: "The payload is plain text; it is sent as a JSON string." },
      { name: "lines", about: "One task for every line of the input or the file." },
    ],
    connects: true,
    examples: [
      { line: `enqueue hello '{"name":"world"}' --wait`, about: "and wait for the result" },
      { line: "enqueue import @rows.jsonl --lines", about: "a task for every line of a file" },
      { line: "enqueue report --delay 1h --key report-2030-01-02", about: "later, and once" },
    ],
    run: async (call) => (await import("../commands/enqueue.ts")).run(call),
  },
  {
    name: "get",
    group: "tasks",
    about: "Shows a task.",
    arguments: [id],
    connects: true,
    run: async (call) => (await import("../commands/get.ts")).run(call),
  },
  {
    name: "result",
    group: "tasks",
    about: "Shows the result of a task.",
    details: ["Ends with 9 when the task has failed, with 8 when there is no result yet."],
    arguments: [id],
    options: [{ ...wait, about: "Wait until there is one." }, timeout],
    connects: true,
    run: async (call) => (await import("../commands/result.ts")).run(call),
  },
  {
    name: "artifacts list",
    group: "tasks",
    about: "Lists the files of the result of a task.",
    arguments: [id],
    connects: true,
    run: async (call) => (await import("../commands/artifacts.ts")).list(call),
  },
  {
    name: "artifacts get",
    group: "tasks",
    about: "Fetches a file of the result of a task; never over one that is there.",
    arguments: [id, { name: "name", about: "The name of the file, as list shows it." }],
    options: [
      { name: "output", value: "file", about: "Where to; default: its name, in this directory." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/artifacts.ts")).get(call),
  },
  {
    name: "work",
    group: "tasks",
    about: "Does the tasks of a queue with a command or a module, until it is stopped.",
    details: [
      "A command gets the payload on its input and the environment variables CODEQ_TASK_ID,",
      "CODEQ_TASK_COMMAND, CODEQ_TASK_ATTEMPT and CODEQ_TASK_MAX_ATTEMPTS. Its output is the",
      "result: a JSON object as it is, anything else inside one. Exit code 0 completes the task, 65",
      "fails it for good, every other one gives it back for another try.",
      "A module exports a function (payload, { id, command, attempt, signal }) as default; what it",
      "returns is the result. An error that is thrown gives the task back, and one with the property",
      "permanent: true fails it for good.",
    ],
    arguments: [{ name: "command", about: "Queue to work on, or several with commas." }],
    behind: { name: "<program> [arguments]", about: "What does a task." },
    options: [
      { name: "module", value: "file", about: "JavaScript or TypeScript file that does a task." },
      { name: "concurrency", value: "number", about: "Tasks at a time; 1 unless told." },
      { name: "lease", value: "time", about: "How long the server waits for a sign of life; 60s." },
      { name: "grace", value: "time", about: "How long running tasks may take after a stop; 10s." },
      { name: "max", value: "number", about: "Stop after this many tasks." },
    ],
    connects: true,
    examples: [
      { line: "work hello -- cat", about: "the result is the payload" },
      { line: "work resize --concurrency 4 -- ./resize.sh", about: "a script, four at a time" },
      { line: "work hello --module ./hello.mjs", about: "a function" },
    ],
    run: async (call) => (await import("../commands/work.ts")).run(call),
  },
  {
    name: "heartbeat",
    group: "tasks",
    about: "Extends the lease of a task that this token's worker holds.",
    arguments: [id],
    options: [
      { name: "extend", value: "time", about: "From now on; the server's default unless told." },
      leaseToken,
    ],
    connects: true,
    run: async (call) => (await import("../commands/lease.ts")).heartbeat(call),
  },
  {
    name: "nack",
    group: "tasks",
    about: "Gives a task back for another try later; costs an attempt.",
    arguments: [id],
    options: [
      { name: "delay", value: "time", about: "Until then; by the backoff policy unless told." },
      { name: "reason", value: "text", about: "Why; kept when it was the last attempt." },
      leaseToken,
    ],
    connects: true,
    run: async (call) => (await import("../commands/lease.ts")).nack(call),
  },
  {
    name: "abandon",
    group: "tasks",
    about: "Gives a task back at once.",
    arguments: [id],
    options: [
      { name: "interrupted", about: "It was not tried to the end: costs no attempt." },
      leaseToken,
    ],
    connects: true,
    run: async (call) => (await import("../commands/lease.ts")).abandon(call),
  },
  {
    name: "queues",
    group: "watch",
    about: "Shows how many tasks are where.",
    details: [
      "FAILED counts tasks that failed for good or were cancelled. Rates are tasks a second over the last",
      "minute. OLDEST is the age of the oldest ready task, DRAIN how long the ready tasks take at this rate.",
      "Of the token's tenant; the token has to be an administrator's.",
    ],
    arguments: [{ name: "command", about: "Only this queue.", optional: true }],
    options: [{ name: "watch", about: "Look again and again, until q or Ctrl-C." }, interval],
    connects: true,
    run: async (call) => (await import("../commands/queues.ts")).run(call),
  },
  {
    name: "top",
    group: "watch",
    about: "Shows queues, rates, ages and workers, live.",
    details: [
      "From the metrics of the server, over all tenants. OLDEST is how long ago the task was created",
      "that is next in line. P50 and P99 are the time from the creation of a task to its end, of those",
      "that ended since the last look, or of all when none did. Workers are those of the token's tenant",
      "that hold leases or have a stream open, when the token is an administrator's.",
    ],
    options: [interval],
    connects: true,
    run: async (call) => (await import("../commands/top.ts")).run(call),
  },
  {
    name: "tail",
    group: "watch",
    about: "Prints what happens to tasks, as it happens.",
    details: [
      "A line for every task that is created, claimed, completed and so on, from now on; the id is",
      "cut to its last eight characters. Of the token's tenant; the token has to be an",
      "administrator's. What happens while the server is away is not shown.",
    ],
    arguments: [{ name: "command", about: "Only this queue.", optional: true }],
    options: [
      {
        name: "type",
        value: "events",
        about: "Only these, with commas between them, such as failed,retried,lease_expired.",
      },
    ],
    examples: [{ line: "tail --type failed", about: "what goes wrong" }],
    connects: true,
    run: async (call) => (await import("../commands/tail.ts")).run(call),
  },
];
