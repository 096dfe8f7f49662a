/** The rows of commands with which operators find and repair tasks. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { interval, yes } from "../shared-options.ts";

const id: ArgumentRow = {
  name: "id",
  about: "The id of a task, or at least 4 characters of its beginning or end.",
};
const filters: readonly OptionRow[] = [
  { name: "priority", value: "0-9", about: "Only tasks of this priority." },
  { name: "worker-id", value: "id", about: "Only tasks that this worker holds or finished." },
  {
    name: "error",
    value: "text",
    about: "Only tasks with this text in their error, in upper or lower case.",
  },
  { name: "group", value: "id", about: "Of this failure group; dlq groups lists them." },
  { name: "key", value: "key", about: "Only the task with this idempotency key." },
  {
    name: "payload",
    value: "path:value",
    about: "Only tasks with this value in the payload, such as customer.id:42.",
  },
  {
    name: "tag",
    value: "tag",
    multiple: true,
    about: "Only tasks with this tag; if repeated, with all of these tags.",
  },
  { name: "created-after", value: "instant", about: "Only tasks created at or after this time." },
  { name: "created-before", value: "instant", about: "Only tasks created before this time." },
  { name: "ended-after", value: "instant", about: "Only tasks that ended at or after this time." },
  { name: "ended-before", value: "instant", about: "Only tasks that ended before this time." },
];
const ofCommand: OptionRow = {
  name: "command",
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
  { name: "all", about: "All dead letters of the tenant." },
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
const jobRate: OptionRow = {
  name: "rate",
  value: "number",
  about: "Tasks a second; default: 100.",
};
const administrator = "Needs an admin token, and covers the tenant of the token.";

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
        choices: ["ready", "delayed", "leased", "dead", "done", "failed"],
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
    name: "dlq triage",
    group: "repair",
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
      { name: "for", value: "time", about: "How long a snoozed group is quiet, such as 8h." },
      { name: "reason", value: "text", about: "Why; shown to everyone." },
    ],
    connects: true,
    examples: [
      { line: "dlq triage 3f2a9c1e5b7d resolved", about: "mark it as fixed" },
      { line: "dlq triage 3f2a9c1e5b7d snoozed --for 8h", about: "hide it for 8 hours" },
    ],
    run: async (call) => (await import("../commands/triage.ts")).run(call),
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
        about: "JSON text, - for standard input, or @file (default: the old payload).",
        optional: true,
      },
    ],
    options: [
      { name: "to", value: "command", about: "Another queue.", isQueue: true },
      { name: "priority", value: "0-9", about: "Another priority." },
      {
        name: "max-attempts",
        value: "number",
        about: "Attempts before the task becomes a dead letter.",
      },
      { name: "delay", value: "time", about: "Start after this time." },
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
    about: "Makes dead letters ready again, with all their attempts; they keep their ids.",
    details: [administrator],
    arguments: [{ ...id, optional: true, multiple: true }],
    options: bulk,
    connects: true,
    examples: [
      { line: "dlq replay 3f2a9c1e", about: "replay one dead letter" },
      {
        line: "dlq replay --command mail --error 'no such host'",
        about: "replay the dead letters that match a filter",
      },
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
    about: "Deletes all dead letters, or all of one queue, including those kept forever.",
    details: [administrator],
    arguments: [oneQueue],
    options: [
      yes,
      { name: "limit", value: "number", about: "Change at most this many tasks (default: 1000)." },
      { name: "dry-run", about: "Only count the tasks; change nothing." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/dead-letters.ts")).purge(call),
  },
  {
    name: "dlq redrive",
    group: "repair",
    about: "Replays dead letters carefully: few first, and more while enough of them succeed.",
    details: [
      "Stops by itself when too many of a stage fail again, and says how many are left.",
      administrator,
    ],
    arguments: [oneQueue],
    options: [
      ...filters,
      { name: "all", about: "All dead letters of the tenant." },
      { name: "first", value: "number", about: "How many the first stage replays; default: 10." },
      { name: "factor", value: "number", about: "How much larger each stage is; default: 2." },
      { name: "max-failures", value: "percent", about: "More than this stops it; default: 20." },
      jobRate,
      { name: "dry-run", about: "Only count the tasks; change nothing." },
    ],
    connects: true,
    examples: [{ line: "dlq redrive --group 3f2a9c1e5b7d --first 5", about: "a failure group" }],
    run: async (call) => (await import("../commands/jobs.ts")).redrive(call),
  },
  {
    name: "jobs start",
    group: "repair",
    about: "Replays, deletes, cancels or moves all tasks that match, at a limited rate.",
    details: [
      "The job survives restarts of the server, and changes no task twice. replay is for dead letters,",
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
        value: "place",
        choices: ["ready", "delayed", "leased", "dead", "done", "failed"],
        about: "Only tasks in this place.",
      },
      ...filters,
      { name: "all", about: "Everything that the action is for." },
      {
        name: "to",
        value: "command",
        about: "For move: the queue that the tasks go to.",
        isQueue: true,
      },
      jobRate,
      { name: "dry-run", about: "Only count the tasks; change nothing." },
    ],
    connects: true,
    examples: [
      { line: "jobs start cancel report --rate 50", about: "a whole queue, slowly" },
      { line: "jobs start move report --to report-slow", about: "to the workers of another queue" },
    ],
    run: async (call) => (await import("../commands/jobs.ts")).start(call),
  },
  {
    name: "jobs list",
    group: "repair",
    about: "Lists bulk jobs.",
    details: [administrator],
    connects: true,
    run: async (call) => (await import("../commands/jobs.ts")).list(call),
  },
  {
    name: "jobs show",
    group: "repair",
    about: "Shows how far a bulk job is, and what it could not change.",
    arguments: [jobId],
    options: [{ name: "watch", about: "Look again and again, until it has ended." }, interval],
    connects: true,
    run: async (call) => (await import("../commands/jobs.ts")).show(call),
  },
  {
    name: "jobs pause",
    group: "repair",
    about: "Pauses a bulk job.",
    arguments: [jobId],
    connects: true,
    run: async (call) => (await import("../commands/jobs.ts")).pause(call),
  },
  {
    name: "jobs resume",
    group: "repair",
    about: "Lets a paused bulk job go on.",
    arguments: [jobId],
    connects: true,
    run: async (call) => (await import("../commands/jobs.ts")).resume(call),
  },
  {
    name: "jobs abort",
    group: "repair",
    about: "Ends a bulk job; what it has done stays done.",
    arguments: [jobId],
    connects: true,
    run: async (call) => (await import("../commands/jobs.ts")).abort(call),
  },
  {
    name: "pause",
    group: "repair",
    about: "Stops handing out the tasks of a queue; tasks can still be enqueued.",
    details: ["Workers keep the tasks that they hold. A pause survives restarts.", administrator],
    arguments: [{ name: "command", about: "The queue.", isQueue: true }],
    options: [{ name: "reason", value: "text", about: "The reason, shown with the queue." }],
    connects: true,
    run: async (call) => (await import("../commands/pause.ts")).pause(call),
  },
  {
    name: "resume",
    group: "repair",
    about: "Resumes a paused queue.",
    details: [administrator],
    arguments: [{ name: "command", about: "The queue.", isQueue: true }],
    connects: true,
    run: async (call) => (await import("../commands/pause.ts")).resume(call),
  },
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
      { name: "grace", value: "time", about: "Time that the worker gets to stop (default: 30s)." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/task.ts")).cancel(call),
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
    run: async (call) => (await import("../commands/why.ts")).run(call),
  },
  {
    name: "move",
    group: "repair",
    about: "Moves a waiting task to another queue.",
    details: [waits, administrator],
    arguments: [id, { name: "command", about: "The new queue.", isQueue: true }],
    connects: true,
    examples: [
      { line: "move 3f2a9c1e mail-slow", about: "move a task to the back of another queue" },
    ],
    run: async (call) => (await import("../commands/task.ts")).move(call),
  },
  {
    name: "run-now",
    group: "repair",
    about: "Makes a delayed task ready now.",
    details: [administrator],
    arguments: [id],
    connects: true,
    run: async (call) => (await import("../commands/task.ts")).runNow(call),
  },
  {
    name: "reschedule",
    group: "repair",
    about: "Changes the start time of a waiting task.",
    details: [waits, administrator],
    arguments: [id],
    options: [
      { name: "delay", value: "time", about: "Start after this time." },
      {
        name: "run-at",
        value: "instant",
        about: "Start at this time, such as 2030-01-02T03:04:05Z.",
      },
    ],
    connects: true,
    run: async (call) => (await import("../commands/task.ts")).reschedule(call),
  },
  {
    name: "set-priority",
    group: "repair",
    about: "Changes the priority of a waiting task; the task goes to the back of that priority.",
    details: [waits, administrator],
    arguments: [id, { name: "priority", about: "From 0 to 9, higher first." }],
    connects: true,
    run: async (call) => (await import("../commands/task.ts")).setPriority(call),
  },
  {
    name: "edit",
    group: "repair",
    about: "Replaces the payload of a waiting task.",
    details: [waits, administrator],
    arguments: [id, { name: "payload", about: "JSON text, - for standard input, or @file." }],
    options: [
      { name: "text", about: "Treat the payload as plain text and send it as a JSON string." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/task.ts")).payload(call),
  },
];
