/** The rows of commands with which operators find and repair tasks. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { interval, yes } from "../shared-options.ts";
import { commandsOf } from "./commands-of.ts";

/** `failure` stands for dead letters and failed tasks. */
const places = [
  "ready",
  "delayed",
  "held",
  "leased",
  "dead",
  "failed",
  "cancelled",
  "done",
  "failure",
] as const;

const id: ArgumentRow = {
  name: "id",
  about: "The id of a task, or at least 4 characters of its beginning or end.",
};
const filters: readonly OptionRow[] = [
  { name: "priority", sets: "priority", value: "0-9", about: "Only tasks of this priority." },
  {
    name: "worker-id",
    sets: "worker",
    value: "id",
    about: "Only tasks that this worker holds or finished.",
  },
  {
    name: "error",
    sets: "error",
    value: "text",
    about: "Only tasks with this text in their error, in upper or lower case.",
  },
  {
    name: "group",
    sets: "group",
    value: "id",
    about: "Of this failure group; dlq groups lists them.",
  },
  {
    name: "key",
    sets: "idempotencyKey",
    value: "key",
    about: "Only the task with this idempotency key.",
  },
  {
    name: "payload",
    sets: "payload",
    value: "path:value",
    about: "Only tasks with this value in the payload, such as customer.id:42.",
  },
  {
    name: "tag",
    sets: "tag",
    value: "tag",
    multiple: true,
    about: "Only tasks with this tag; if repeated, with all of these tags.",
  },
  {
    name: "schedule",
    sets: "schedule",
    value: "id",
    about: "Only tasks of this schedule.",
  },
  { name: "batch", sets: "batch", value: "id", about: "Only members of this batch." },
  { name: "lane", sets: "lane", value: "lane", about: "Only tasks of this lane." },
  {
    name: "created-after",
    sets: "createdAfter",
    value: "instant",
    about: "Only tasks created at or after this time.",
  },
  {
    name: "created-before",
    sets: "createdBefore",
    value: "instant",
    about: "Only tasks created before this time.",
  },
  {
    name: "ended-after",
    sets: "endedAfter",
    value: "instant",
    about: "Only tasks that ended at or after this time.",
  },
  {
    name: "ended-before",
    sets: "endedBefore",
    value: "instant",
    about: "Only tasks that ended before this time.",
  },
];
const ofCommand: OptionRow = {
  name: "command",
  sets: "command",
  value: "command",
  isQueue: true,
  about: "Only tasks of this queue.",
};
const listing: readonly OptionRow[] = [
  { name: "limit", value: "number", about: "Number of tasks to show (default: 50)." },
  { name: "oldest", about: "Oldest tasks first (default: newest first)." },
];
const bulk: readonly OptionRow[] = [
  ofCommand,
  ...filters,
  { name: "all", about: "All failures of the tenant." },
  { name: "limit", value: "number", about: "Change at most this many tasks (default: 1000)." },
  { name: "dry-run", about: "Only count the tasks; change nothing." },
];
const oneQueue: ArgumentRow = {
  name: "command",
  about: "Only this queue.",
  optional: true,
  isQueue: true,
};
const jobId: ArgumentRow = { name: "id", about: "The id of a job." };
export const jobRate: OptionRow = {
  name: "rate",
  sets: "ratePerSecond",
  value: "number",
  about: "Tasks a second; default: 100.",
};
const administrator = "Needs an admin token, and covers the tenant of the token.";
const ofAdministrators = { group: "repair", details: [administrator] } as const;
const waits = "Refused if a worker holds the task, or if the task has ended.";

export const repairCommands: readonly CommandRow[] = [
  {
    name: "tasks",
    group: "repair",
    about: "Lists tasks that match a filter.",
    details: [
      administrator,
      "Ids are shortened to their last eight characters, which other commands accept.",
    ],
    arguments: [oneQueue],
    options: [
      {
        name: "place",
        value: "place",
        choices: places,
        about: "Only tasks in this place.",
      },
      ...filters,
      ...listing,
    ],
    connects: true,
    examples: [
      {
        line: "tasks mail --place failed --error timeout",
        about: "list failed tasks with an error",
      },
      { line: "tasks --payload customer.id:42", about: "list the tasks of a customer" },
    ],
    run: async (call) => (await import("../commands/tasks/tasks.ts")).run(call),
  },
  ...commandsOf(ofAdministrators, () => import("../commands/failures/dead-letters.ts"), {
    "dlq list": {
      about: "Lists failures: dead letters, which used up their attempts, and failed tasks.",
      arguments: [oneQueue],
      options: [...filters, ...listing],
    },
    "dlq show": {
      details: [],
      about: "Shows a failure, or any other task, with its payload and error.",
      arguments: [id],
    },
    "dlq groups": {
      about: "Groups failures by what their errors have in common.",
      details: [
        "Dead letters and failed tasks; numbers, ids, quoted text and paths in errors are left out.",
        administrator,
      ],
      arguments: [oneQueue],
      options: filters,
      examples: [
        { line: "dlq groups mail", about: "what goes wrong, and how often" },
        { line: "dlq replay --group 3f2a9c1e5b7d", about: "try all of a group again" },
      ],
    },
    "dlq triage": {
      about: "Resolves, ignores or snoozes a failure group.",
      details: [
        "This changes no task. A group that fails again after it was resolved is shown as returned.",
        administrator,
      ],
      arguments: [
        { name: "group", about: "The id of the failure group; dlq groups lists them." },
        { name: "state", about: "One of resolved, ignored, snoozed, or open to take that back." },
      ],
      options: [
        {
          name: "for",
          sets: "snoozeSeconds",
          value: "time",
          about: "How long a snoozed group is quiet, such as 8h.",
        },
        { name: "reason", sets: "reason", value: "text", about: "Why; shown to everyone." },
      ],
      examples: [
        { line: "dlq triage 3f2a9c1e5b7d resolved", about: "mark it as fixed" },
        { line: "dlq triage 3f2a9c1e5b7d snoozed --for 8h", about: "hide it for 8 hours" },
      ],
    },
    "dlq edit": {
      about: "Makes a new task of one that has ended, with some things changed.",
      details: ["The old task stays as it is, and both name each other.", administrator],
      arguments: [
        id,
        {
          name: "payload",
          about: "JSON text, - for standard input, or @file (default: the old payload).",
          optional: true,
        },
      ],
      options: [
        { name: "to", sets: "command", value: "command", about: "Another queue.", isQueue: true },
        { name: "priority", sets: "priority", value: "0-9", about: "Another priority." },
        {
          name: "max-attempts",
          sets: "maxAttempts",
          value: "number",
          about: "Attempts before the task becomes a dead letter.",
        },
        { name: "delay", sets: "delaySeconds", value: "time", about: "Start after this time." },
      ],
      examples: [
        { line: `dlq edit 3f2a9c1e '{"to":"ada@example.com"}'`, about: "with a correct payload" },
      ],
    },
    "dlq replay": {
      about: "Makes failures ready again, with all their attempts; they keep their ids.",
      arguments: [{ ...id, optional: true, multiple: true }],
      options: bulk,
      examples: [
        { line: "dlq replay 3f2a9c1e", about: "replay one failure" },
        {
          line: "dlq replay --command mail --error 'no such host'",
          about: "replay the failures that match a filter",
        },
      ],
    },
    "dlq delete": {
      about: "Deletes failures before their retention ends.",
      arguments: [{ ...id, optional: true, multiple: true }],
      options: bulk,
    },
    "dlq purge": {
      about: "Deletes all failures, or all of one queue, including those kept forever.",
      arguments: [oneQueue],
      options: [
        yes,
        {
          name: "limit",
          value: "number",
          about: "Change at most this many tasks (default: 1000).",
        },
        { name: "dry-run", about: "Only count the tasks; change nothing." },
      ],
    },
  }),
  ...commandsOf({ group: "repair" }, () => import("../commands/failures/jobs.ts"), {
    "dlq redrive": {
      about: "Replays failures carefully: few first, and more while enough of them succeed.",
      details: [
        "Stops by itself when too many of a stage fail again, and says how many are left.",
        administrator,
      ],
      arguments: [oneQueue],
      options: [
        ...filters,
        { name: "all", about: "All failures of the tenant." },
        {
          name: "first",
          sets: "canaryFirst",
          value: "number",
          about: "How many the first stage replays; default: 10.",
        },
        {
          name: "factor",
          sets: "canaryFactor",
          value: "number",
          about: "How much larger each stage is; default: 2.",
        },
        {
          name: "max-failures",
          sets: "canaryFailurePercent",
          value: "percent",
          about: "More than this stops it; default: 20.",
        },
        jobRate,
        { name: "dry-run", about: "Only count the tasks; change nothing." },
      ],
      examples: [{ line: "dlq redrive --group 3f2a9c1e5b7d --first 5", about: "a failure group" }],
    },
    "jobs start": {
      about: "Replays, deletes, cancels or moves all tasks that match, at a limited rate.",
      details: [
        "The job survives restarts of the server, and changes no task twice. replay is for failures,",
        "delete for tasks that have ended, cancel for those that wait or run, move for those that wait.",
        administrator,
      ],
      arguments: [
        { name: "action", about: "What to do.", choices: ["replay", "delete", "cancel", "move"] },
        oneQueue,
      ],
      options: [
        {
          name: "place",
          sets: "place",
          value: "place",
          choices: places,
          about: "Only tasks in this place.",
        },
        ...filters,
        { name: "all", about: "Everything that the action is for." },
        {
          name: "to",
          sets: "moveTo",
          value: "command",
          about: "For move: the queue that the tasks go to.",
          isQueue: true,
        },
        jobRate,
        { name: "dry-run", about: "Only count the tasks; change nothing." },
      ],
      examples: [
        { line: "jobs start cancel report --rate 50", about: "a whole queue, slowly" },
        {
          line: "jobs start move report --to report-slow",
          about: "to the workers of another queue",
        },
      ],
    },
    "jobs list": {
      about: "Lists bulk jobs.",
      details: [administrator],
    },
    "jobs show": {
      about: "Shows how far a bulk job is, and what it could not change.",
      arguments: [jobId],
      options: [{ name: "watch", about: "Look again and again, until it has ended." }, interval],
    },
    "jobs pause": {
      about: "Pauses a bulk job.",
      arguments: [jobId],
    },
    "jobs resume": {
      about: "Lets a paused bulk job go on.",
      arguments: [jobId],
    },
    "jobs abort": {
      about: "Ends a bulk job; what it has done stays done.",
      arguments: [jobId],
    },
  }),
  ...commandsOf(ofAdministrators, () => import("../commands/queues/pause.ts"), {
    pause: {
      about: "Stops handing out the tasks of a queue; tasks can still be enqueued.",
      details: ["Workers keep the tasks that they hold. A pause survives restarts.", administrator],
      arguments: [{ name: "command", about: "The queue.", isQueue: true }],
      options: [{ name: "reason", value: "text", about: "The reason, shown with the queue." }],
    },
    resume: {
      about: "Resumes a paused queue.",
      arguments: [{ name: "command", about: "The queue.", isQueue: true }],
    },
  }),
  {
    name: "cancel",
    group: "repair",
    about: "Cancels a task; it ends as FAILED with the error CANCELLED.",
    details: [
      "A waiting task ends immediately. If a worker holds the task, the server notifies the worker and",
      "takes the task away when the grace period is over.",
      administrator,
    ],
    arguments: [id],
    options: [
      {
        name: "grace",
        sets: "graceSeconds",
        value: "time",
        about: "Time that the worker gets to stop (default: 30s).",
      },
    ],
    connects: true,
    run: async (call) => (await import("../commands/tasks/task.ts")).cancel(call),
  },
  {
    name: "why",
    group: "repair",
    about: "Explains why a task does not run, or why a worker gets none.",
    details: [
      "Shows the rule that holds the task back, how many tasks are ahead of it, and approximately when it",
      "starts, estimated from the attempts that ended in its queue in the last two minutes.",
    ],
    arguments: [{ ...id, optional: true }],
    options: [{ name: "worker-id", value: "id", about: "Why this worker gets nothing." }],
    connects: true,
    examples: [
      { line: "why 3f2a9c1e", about: "what the task waits for" },
      { line: "why --worker-id worker-1", about: "what the worker waits for" },
    ],
    run: async (call) => (await import("../commands/tasks/why.ts")).run(call),
  },
  ...commandsOf(
    { group: "repair", details: [waits, administrator] },
    () => import("../commands/tasks/task.ts"),
    {
      move: {
        about: "Moves a waiting task to another queue.",
        arguments: [id, { name: "command", about: "The new queue.", isQueue: true }],
        examples: [
          { line: "move 3f2a9c1e mail-slow", about: "move a task to the back of another queue" },
        ],
      },
      "run-now": {
        about: "Makes a delayed task ready now.",
        details: [administrator],
        arguments: [id],
      },
      reschedule: {
        about: "Changes the start time of a waiting task.",
        arguments: [id],
        options: [
          { name: "delay", sets: "delaySeconds", value: "time", about: "Start after this time." },
          {
            name: "run-at",
            sets: "runAt",
            value: "instant",
            about: "Start at this time, such as 2030-01-02T03:04:05Z.",
          },
        ],
      },
      "set-priority": {
        about:
          "Changes the priority of a waiting task; the task goes to the back of that priority.",
        arguments: [id, { name: "priority", about: "From 0 to 9, higher first." }],
      },
      edit: {
        about: "Replaces the payload of a waiting task.",
        arguments: [id, { name: "payload", about: "JSON text, - for standard input, or @file." }],
        options: [
          { name: "text", about: "Treat the payload as plain text and send it as a JSON string." },
        ],
      },
    },
  ),
];
