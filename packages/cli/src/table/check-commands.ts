/** The rows of commands that check, measure and explain. */
import type { CommandRow } from "../command.ts";

export const checkCommands: readonly CommandRow[] = [
  {
    name: "doctor",
    group: "check",
    about: "Checks data directory, disk, clock, ports, limits, versions, server and token.",
    details: [
      "Prints ok, warn or fail for each check, and how to fix it. Exits with 9 if a check failed.",
    ],
    connects: true,
    serverFlags: "accepted",
    run: async (call) => (await import("../commands/server/doctor.ts")).run(call),
  },
  {
    name: "bench",
    group: "check",
    about: "Puts a small load on a running server and prints how fast it was.",
    details: ["Uses its own queue, which is empty again afterwards."],
    options: [
      { name: "tasks", value: "number", about: "Number of tasks (default: 5000)." },
      {
        name: "concurrency",
        value: "number",
        about: "Concurrent requests of producers, and of workers (default: 32).",
      },
      { name: "batch", value: "number", about: "Tasks per request (default: 1)." },
      {
        name: "payload-bytes",
        value: "number",
        about: "Size of a payload in bytes (default: 100).",
      },
    ],
    connects: true,
    run: async (call) => (await import("../commands/bench.ts")).run(call),
  },
  {
    name: "config print",
    group: "check",
    about: "Shows the settings of a server started in this environment, with secrets masked.",
    options: [{ name: "changed", about: "Only settings that differ from their defaults." }],
    serverFlags: "accepted",
    run: async (call) => (await import("../commands/server/serve.ts")).printConfig(call),
  },
  {
    name: "log inspect",
    group: "check",
    about: "Shows the commit log of a data directory; changes nothing.",
    details: [
      "Works while a server is running. Shows keys, but no values. Exits with 4 if durable data is",
      "missing.",
    ],
    options: [
      {
        name: "from",
        value: "index",
        about: "First record to show (default: the last ones).",
      },
      { name: "limit", value: "number", about: "Number of records to show (default: 20)." },
      { name: "ops", about: "Show the changes of each record." },
      { name: "task", value: "id", about: "Only records that change this task." },
      {
        name: "shard",
        value: "number",
        about: "Only the log of this shard, or `control` for the log of API keys (default: all).",
      },
    ],
    serverFlags: "accepted",
    examples: [
      {
        line: "log inspect --data-dir .codeq/data --ops",
        about: "show the last changes of a dev server",
      },
    ],
    run: async (call) => (await import("../commands/server/log.ts")).inspect(call),
  },
  {
    name: "shards migrate",
    group: "check",
    about: "Changes the number of shards of a data directory while the server is stopped.",
    details: [
      "Copies all tasks to new stores, compares them with the old stores, and then replaces the old",
      "stores by one rename. Needs as much free space as the data takes. If it is interrupted before the",
      "rename, the old stores stay in use; run it again.",
    ],
    options: [
      { name: "to", value: "number", about: "The new number of shards, from 1 to 64." },
      { name: "abort", about: "Cancel an unfinished change and keep the old number of shards." },
      {
        name: "set-aside-damaged",
        about: "Leave out tasks that cannot be read; their bytes stay in quarantine.",
      },
    ],
    serverFlags: "accepted",
    examples: [
      { line: "shards migrate --to 4 --config /etc/codeq.yaml", about: "change to four shards" },
    ],
    run: async (call) => (await import("../commands/server/shards.ts")).migrate(call),
  },
  {
    name: "backup",
    group: "check",
    about: "Stores a backup of a running server on this machine.",
    details: [
      "Writes a file, or a folder if the path is a folder or ends with a slash. If the path has a backup, the",
      "command adds the changes since then. Needs an operator token. Artifacts are not included.",
    ],
    options: [
      { name: "to", value: "path", about: "The file or the folder of the backup." },
      { name: "full", about: "Write a full backup even if the changes would be enough." },
    ],
    connects: true,
    examples: [
      {
        line: "backup --to codeq.backup",
        about: "write a backup, or add the changes to the one that is there",
      },
    ],
    run: async (call) => (await import("../commands/server/backup.ts")).store(call),
  },
  {
    name: "backup create",
    group: "check",
    about: "Writes a backup of a running server on the machine of the server.",
    details: [
      "Writes to a folder in backupDir. The first backup is full; later ones with the same name add the changes",
      "since. Needs an operator token.",
    ],
    arguments: [{ name: "name", about: "The folder." }],
    options: [{ name: "full", about: "Write a full backup even if the changes would be enough." }],
    connects: true,
    run: async (call) => (await import("../commands/server/backup.ts")).create(call),
  },
  {
    name: "backup verify",
    group: "check",
    about: "Reads a backup as a restore would.",
    arguments: [{ name: "path", about: "The file or the folder of the backup." }],
    run: async (call) => (await import("../commands/server/backup.ts")).verify(call),
  },
  {
    name: "restore",
    group: "check",
    about: "Makes a data directory from a backup.",
    details: ["The data directory has to be empty. Start the server on it afterwards."],
    arguments: [{ name: "path", about: "The file or the folder of the backup." }],
    options: [
      {
        name: "at",
        value: "instant",
        about: "Restore the state at this time (default: the end of the backup).",
      },
    ],
    serverFlags: "accepted",
    examples: [
      {
        line: "restore /backups/daily --data-dir /var/lib/codeq --at 2030-01-02T03:04:05Z",
        about: "restore the state at a time",
      },
    ],
    run: async (call) => (await import("../commands/server/backup.ts")).restore(call),
  },
  {
    name: "salvage",
    group: "check",
    about: "Prints the tasks of a damaged data directory that can still be read, as JSON lines.",
    details: [
      "Use it if the server cannot open the directory and there is no backup. Changes nothing.",
      "Stop the server first. Reports damage on standard error and then exits with 4.",
    ],
    serverFlags: "accepted",
    examples: [
      {
        line: "salvage --data-dir /var/lib/codeq > tasks.jsonl",
        about: "save all tasks that can be read",
      },
    ],
    run: async (call) => (await import("../commands/server/salvage.ts")).run(call),
  },
  {
    name: "version",
    group: "check",
    about: "Prints the versions of codeq and Node.",
    run: async (call) => (await import("../help.ts")).version(call),
  },
  {
    name: "completion",
    group: "shell",
    about: "Prints a completion script for a shell.",
    arguments: [
      { name: "shell", about: "One of bash, zsh and fish.", choices: ["bash", "zsh", "fish"] },
    ],
    examples: [
      {
        line: "completion bash > ~/.local/share/bash-completion/completions/codeq",
        about: "install completion for bash",
      },
    ],
    run: async (call) => (await import("../commands/completion.ts")).run(call),
  },
  {
    name: "help",
    group: "shell",
    about: "Prints the usage of a command.",
    arguments: [
      { name: "command", about: "The command (default: list all commands).", optional: true },
      { name: "verb", about: "The second word of the command.", optional: true },
    ],
    run: async (call) => (await import("../help.ts")).help(call),
  },
];
