/** The rows of commands for tasks and queues. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { interval, uniqueOptions } from "../shared-options.ts";
import { commandsOf } from "./commands-of.ts";

const id: ArgumentRow = { name: "id", about: "The id of a task." };
const wait: OptionRow = {
  name: "wait",
  about: "Wait until the task has ended, and print its result.",
};
const timeout: OptionRow = {
  name: "timeout",
  value: "time",
  about: "How long to wait at most (default: 60s).",
};
const leaseToken: OptionRow = {
  name: "lease-token",
  value: "number",
  about: "Lease token, as shown by get; the server refuses it after another claim of the task.",
};

export const taskCommands: readonly CommandRow[] = [
  {
    name: "enqueue",
    group: "tasks",
    about: "Creates a task.",
    details: [
      "The payload is JSON and is stored unchanged (default: {}). A <time> is a number of seconds,",
      "or a number with the unit ms, s, m, h or d.",
    ],
    arguments: [
      {
        name: "command",
        about: "The name of the work, which is also the name of the queue.",
        isQueue: true,
      },
      { name: "payload", about: "JSON text, - for standard input, or @file.", optional: true },
    ],
    options: [
      wait,
      timeout,
      { name: "priority", value: "0-9", about: "Priority; higher first (default: 0)." },
      { name: "delay", value: "time", about: "Start after this time." },
      {
        name: "run-at",
        value: "instant",
        about: "Start at this time, such as 2030-01-02T03:04:05Z.",
      },
      {
        name: "max-attempts",
        value: "number",
        about: "Attempts before the task becomes a dead letter.",
      },
      {
        name: "execution-timeout",
        value: "time",
        about: "How long a worker may take for one attempt; then the attempt ends with TIMEOUT.",
      },
      {
        name: "ttl",
        value: "time",
        about: "Fail the task with EXPIRED if no worker has begun it after this time.",
      },
      { name: "key", value: "key", about: "Idempotency key; the same key creates no second task." },
      {
        name: "key-mode",
        value: "mode",
        choices: ["strict", "first"],
        about: "If the key has a task with another payload: refuse, or give that task.",
      },
      ...uniqueOptions,
      {
        name: "lane",
        value: "lane",
        about: "Lane of the queue, such as a customer; limits and fair shares apply to it.",
      },
      { name: "cost", value: "units", about: "Units of rates that the task takes; default: 1." },
      { name: "batch", value: "id", about: "Open batch that the task becomes a member of." },
      {
        name: "after",
        value: "task id",
        multiple: true,
        about: "Task that has to succeed before; up to 100.",
      },
      { name: "webhook", value: "url", about: "URL that gets the result." },
      {
        name: "tag",
        value: "tag",
        multiple: true,
        about: "Tag to find the task by; up to 16 per task.",
      },
      { name: "text", about: "Treat the payload as plain text and send it as a JSON string." },
      { name: "lines", about: "Create one task for every line of the input or the file." },
    ],
    connects: true,
    examples: [
      {
        line: `enqueue hello '{"name":"world"}' --wait`,
        about: "create a task and wait for its result",
      },
      {
        line: "enqueue import @rows.jsonl --lines",
        about: "create one task for every line of a file",
      },
      {
        line: "enqueue report --delay 1h --key report-2030-01-02",
        about: "start in an hour; running the command twice creates one task",
      },
    ],
    run: async (call) => (await import("../commands/tasks/enqueue.ts")).run(call),
  },
  {
    name: "get",
    group: "tasks",
    about: "Shows a task.",
    arguments: [id],
    options: [
      { name: "by-key", about: "The argument is the idempotency key of the task." },
      {
        name: "local",
        about: "In a cluster, show the copy of the node that is asked; it may be a moment old.",
      },
    ],
    connects: true,
    run: async (call) => (await import("../commands/tasks/task.ts")).show(call),
  },
  {
    name: "result",
    group: "tasks",
    about: "Shows the result of a task.",
    details: ["Exits with 9 if the task has failed, with 8 if there is no result yet."],
    arguments: [id],
    options: [{ ...wait, about: "Wait for the result." }, timeout],
    connects: true,
    run: async (call) => (await import("../commands/tasks/result.ts")).run(call),
  },
  {
    name: "decode",
    group: "tasks",
    about: "Shows the payload and the result of a task that are encrypted.",
    details: [
      "The keys stay in this process: the server gives what it stores, and never sees them.",
    ],
    arguments: [{ name: "id", about: "The id of a task, or - for JSON from standard input." }],
    options: [
      {
        name: "keys",
        value: "file",
        env: "CODEQ_KEYS",
        about: 'JSON file with the keys by name, in base64: {"june":"..."}.',
      },
    ],
    connects: true,
    examples: [
      {
        line: "result 3f2a9c1e | codeq decode - --keys keys.json",
        about: "decode what a command printed",
      },
    ],
    run: async (call) => (await import("../commands/tasks/decode.ts")).run(call),
  },
  ...commandsOf({ group: "tasks" }, () => import("../commands/tasks/artifacts.ts"), {
    "artifacts list": {
      about: "Lists the files of the result of a task.",
      arguments: [id],
    },
    "artifacts get": {
      about: "Fetches a file of the result of a task. It does not overwrite an existing file.",
      arguments: [id, { name: "name", about: "The name of the file, as list shows it." }],
      options: [
        { name: "output", value: "file", about: "Where to; default: its name, in this directory." },
      ],
    },
  }),
  {
    name: "work",
    group: "tasks",
    about: "Runs a program or a module for every task of a queue, until you stop it.",
    details: [
      "A program gets the payload on its standard input and the environment variables CODEQ_TASK_ID,",
      "CODEQ_TASK_COMMAND, CODEQ_TASK_ATTEMPT and CODEQ_TASK_MAX_ATTEMPTS. Its standard output is the",
      "result: a JSON object is used unchanged, other output is wrapped in an object. Exit code 0",
      "completes the task, 65 fails it without a retry, and any other exit code retries it.",
      "A module has a default export (payload, { id, command, attempt, signal }) that returns the",
      "result. A thrown error retries the task; an error with the property permanent: true fails it",
      "without a retry.",
    ],
    arguments: [
      {
        name: "command",
        about: "The queue, or several queues separated by commas.",
        isQueue: true,
      },
    ],
    behind: { name: "<program> [arguments]", about: "The program to run for every task." },
    options: [
      {
        name: "module",
        value: "file",
        about: "JavaScript or TypeScript file with the function to run.",
      },
      { name: "concurrency", value: "number", about: "Tasks at a time (default: 1)." },
      {
        name: "lease",
        value: "time",
        about: "Length of the lease, which is extended while a task runs (default: 60s).",
      },
      {
        name: "grace",
        value: "time",
        about: "Time that running tasks get to finish after a stop (default: 10s).",
      },
      { name: "max", value: "number", about: "Stop after this many tasks." },
    ],
    connects: true,
    examples: [
      { line: "work hello -- cat", about: "return the payload as the result" },
      {
        line: "work resize --concurrency 4 -- ./resize.sh",
        about: "run a script for four tasks at a time",
      },
      { line: "work hello --module ./hello.mjs", about: "run a function" },
    ],
    run: async (call) => (await import("../commands/tasks/work.ts")).run(call),
  },
  ...commandsOf({ group: "tasks" }, () => import("../commands/tasks/task.ts"), {
    heartbeat: {
      about: "Extends the lease of a task that the worker of this token holds.",
      arguments: [id],
      options: [
        {
          name: "extend",
          value: "time",
          about: "New length of the lease, from now (default: the server's setting).",
        },
        leaseToken,
      ],
    },
    nack: {
      about: "Fails the current attempt; the server retries the task later.",
      arguments: [id],
      options: [
        {
          name: "delay",
          value: "time",
          about: "Delay before the retry (default: by the backoff policy).",
        },
        {
          name: "reason",
          value: "text",
          about: "The reason; stored if this was the last attempt.",
        },
        leaseToken,
      ],
    },
    abandon: {
      about: "Gives up the lease of a task; the task is ready immediately.",
      arguments: [id],
      options: [
        { name: "interrupted", about: "Do not count the attempt, because it was interrupted." },
        leaseToken,
      ],
    },
  }),
  {
    name: "queues",
    group: "watch",
    about: "Counts the tasks of each queue.",
    details: [
      "FAILED counts tasks that failed without a retry, not cancelled tasks. Rates are tasks a second over the last",
      "minute. OLDEST is the age of the oldest ready task, DRAIN how long the ready tasks take at this rate.",
      "Needs an admin token, and covers the tenant of the token.",
    ],
    arguments: [{ name: "command", about: "Only this queue.", optional: true, isQueue: true }],
    options: [
      { name: "watch", about: "Keep the table up to date, until q or Ctrl-C." },
      interval,
      { name: "names", about: "Only the names; fails if there is no answer within a second." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/queues/queues.ts")).run(call),
  },
  {
    name: "top",
    group: "watch",
    about: "Shows queues, rates, ages and workers, live.",
    details: [
      "Reads the metrics of the server, for all tenants. OLDEST is the age of the next task in the queue, LANES",
      "the number of lanes with ready tasks; codeq lanes shows each of them.",
      "P50 and P99 are percentiles of the time from creation to end, of the tasks that ended since the",
      "last update, or of all tasks if none did. With an admin token, top also lists the workers of the",
      "tenant that hold leases or have an open stream.",
    ],
    options: [interval],
    connects: true,
    run: async (call) => (await import("../commands/queues/top.ts")).run(call),
  },
  {
    name: "tail",
    group: "watch",
    about: "Prints the events of tasks, live.",
    details: [
      "Prints one line whenever a task is created, claimed, completed and so on. Ids are shortened to",
      "their last eight characters. Needs an admin token, and covers the tenant of the token. Events that",
      "happen while the connection is down are not shown.",
    ],
    arguments: [{ name: "command", about: "Only this queue.", optional: true, isQueue: true }],
    options: [
      {
        name: "type",
        value: "events",
        about: "Only these events, separated by commas, such as failed,retried,lease_expired.",
      },
    ],
    examples: [{ line: "tail --type failed", about: "show failed tasks" }],
    connects: true,
    run: async (call) => (await import("../commands/tasks/tail.ts")).run(call),
  },
  {
    name: "mcp",
    group: "tasks",
    about: "Speaks the Model Context Protocol on its standard input and output, for agents.",
    details: [
      "An agent gets tools to find, explain and enqueue tasks, to group failures, to replay dead letters after a dry run,",
      "and to work on tasks under a lease. It may do what the token allows; the audit trail shows it as any other caller.",
      "Needs the package @modelcontextprotocol/sdk, which the executable contains.",
    ],
    connects: true,
    options: [{ name: "read-only", about: "Offer only tools that change nothing." }],
    examples: [
      { line: "mcp --read-only", about: "let an agent look, and change nothing" },
      { line: "mcp --token $AGENT_TOKEN", about: "with a token of its own, which names the agent" },
    ],
    run: async (call) => (await import("../commands/mcp.ts")).run(call),
  },
];
