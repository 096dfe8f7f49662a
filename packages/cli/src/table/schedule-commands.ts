/** The rows of commands for schedules. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { uniqueOptions } from "../shared-options.ts";
import { commandsOf } from "./commands-of.ts";

const schedule: ArgumentRow = { name: "schedule", about: "The id of the schedule." };
const administrator = "It needs an administrator's token.";

const times: readonly OptionRow[] = [
  { name: "tz", sets: "tz", value: "zone", about: "The IANA time zone (default: UTC)." },
  {
    name: "except",
    value: "date or cron",
    multiple: true,
    about: "A local date, or a cron expression, at which nothing fires; may be repeated.",
  },
];

const settings: readonly OptionRow[] = [
  { name: "cron", sets: "cron", value: "fields", about: "When, such as '0 9 * * MON-FRI'." },
  {
    name: "every",
    sets: "every",
    value: "period",
    about: "Instead of --cron: a period such as 15m.",
  },
  { name: "offset", sets: "offset", value: "period", about: "With --every: how much later." },
  ...times,
  { name: "from", sets: "from", value: "instant", about: "Nothing fires before (RFC 3339)." },
  { name: "until", sets: "until", value: "instant", about: "Nothing fires after (RFC 3339)." },
  { name: "times", sets: "times", value: "number", about: "Tasks to create in all." },
  {
    name: "overlap",
    sets: "overlap",
    value: "rule",
    choices: ["allow", "skip", "one", "replace"],
    about: "While a task of the schedule has not ended (default: skip).",
  },
  {
    name: "catch-up",
    sets: "catchUp",
    value: "rule",
    choices: ["none", "latest", "all"],
    about: "What happens after down time (default: latest).",
  },
  {
    name: "grace",
    sets: "graceSeconds",
    value: "time",
    about: "With --overlap replace: how long the worker of a cancelled task gets to stop.",
  },
  { name: "within", sets: "within", value: "period", about: "How late a task may be created." },
  { name: "spread", sets: "spread", value: "period", about: "Create tasks up to so much later." },
  {
    name: "pause-after-failures",
    sets: "pauseAfterFailures",
    value: "number",
    about: "Pause after so many failed tasks in a row.",
  },
  { name: "payload", value: "json", about: "The payload of the tasks (default: {})." },
  { name: "priority", sets: "priority", value: "number", about: "0 to 9; the highest first." },
  {
    name: "max-attempts",
    sets: "maxAttempts",
    value: "number",
    about: "Attempts before a task becomes a dead letter.",
  },
  {
    name: "execution-timeout",
    sets: "timeoutSeconds",
    value: "time",
    about: "How long a worker may take for one attempt.",
  },
  {
    name: "ttl",
    sets: "ttlSeconds",
    value: "time",
    about: "How long a task may wait for a worker.",
  },
  { name: "tag", sets: "tags", value: "tag", multiple: true, about: "A label of the tasks." },
  { name: "webhook", sets: "webhook", value: "url", about: "The URL that gets the results." },
  ...uniqueOptions,
  { name: "lane", sets: "lane", value: "lane", about: "The lane of the tasks in their queue." },
  { name: "cost", sets: "cost", value: "units", about: "Units of rates that each task takes." },
];

export const scheduleCommands: readonly CommandRow[] = [
  ...commandsOf(
    { group: "tasks", details: [administrator] },
    () => import("../commands/queues/schedules.ts"),
    {
      "schedules put": {
        about: "Creates a schedule, or changes it.",
        details: [
          "What is not given is reset: the command states the whole schedule.",
          administrator,
        ],
        arguments: [schedule, { name: "queue", about: "The queue of the tasks.", isQueue: true }],
        options: settings,
        examples: [
          {
            line: "schedules put digest-acme digest --cron '0 9 * * MON-FRI' --tz Europe/Paris",
            about: "every working day at nine in Paris",
          },
        ],
      },
      "schedules list": {
        about: "Lists schedules with their next instants.",
        options: [{ name: "prefix", value: "text", about: "Only ids that begin like this." }],
      },
      "schedules get": { about: "Shows a schedule.", arguments: [schedule] },
      "schedules delete": { about: "Deletes a schedule; its tasks stay.", arguments: [schedule] },
      "schedules pause": {
        about: "Pauses a schedule.",
        arguments: [schedule],
        options: [{ name: "reason", value: "text", about: "Why, for those who see it." }],
      },
      "schedules resume": { about: "Resumes a schedule.", arguments: [schedule] },
      "schedules run": { about: "Creates a task of a schedule now.", arguments: [schedule] },
      "schedules runs": {
        about: "Lists what a schedule did: tasks, and skips with their reasons.",
        arguments: [schedule],
        options: [{ name: "limit", value: "number", about: "How many (default: 20)." }],
      },
      "schedules why": {
        about: "Explains why a schedule did or did not run at a time.",
        arguments: [
          schedule,
          { name: "time", about: "An instant, or a local time such as 2026-03-29T02:30." },
        ],
      },
      "schedules backfill": {
        about: "Creates tasks for instants of the past that have none.",
        arguments: [schedule],
        options: [
          { name: "from", sets: "from", value: "instant", about: "The first instant (RFC 3339)." },
          { name: "until", sets: "until", value: "instant", about: "The last instant (RFC 3339)." },
          { name: "rate", sets: "ratePerSecond", value: "number", about: "Tasks a second." },
          { name: "dry-run", about: "Only count the instants." },
        ],
      },
    },
  ),
  {
    name: "schedules next",
    group: "tasks",
    about: "Prints when a cron expression or a period would fire; needs no server.",
    arguments: [{ name: "times", about: "A cron expression, or a period such as 15m." }],
    options: [
      ...times,
      { name: "count", value: "number", about: "How many (default: 10)." },
      { name: "after", value: "instant", about: "Behind this instant (default: now)." },
    ],
    examples: [
      { line: "schedules next '30 2 * * *' --tz Europe/Paris", about: "with gaps and repeats" },
    ],
    run: async (call) => (await import("../commands/queues/schedules.ts")).next(call),
  },
];
