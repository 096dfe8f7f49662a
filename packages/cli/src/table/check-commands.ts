/** Rows of the commands that check, measure and explain. */
import type { CommandRow } from "../command.ts";

export const checkCommands: readonly CommandRow[] = [
  {
    name: "doctor",
    group: "check",
    about: "Checks data directory, disk, clock, ports, limits, versions, server and token.",
    details: ["Each check is ok, warn or fail, with what to do. Ends with 9 when one failed."],
    connects: true,
    serverFlags: "accepted",
    run: async (call) => (await import("../commands/doctor.ts")).run(call),
  },
  {
    name: "bench",
    group: "check",
    about: "Puts a small load on a running server and says how fast it was.",
    details: ["On a queue of its own, which is empty again afterwards."],
    options: [
      { name: "tasks", value: "number", about: "How many; 5000 unless told." },
      { name: "concurrency", value: "number", about: "Requests at a time on each side; 32." },
      { name: "batch", value: "number", about: "Tasks in one request; 1 unless told." },
      { name: "payload-bytes", value: "number", about: "Size of a payload; 100 unless told." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/bench.ts")).run(call),
  },
  {
    name: "config print",
    group: "check",
    about: "Shows the settings a server started here would have, secrets masked.",
    options: [{ name: "changed", about: "Only those that are not at their default." }],
    serverFlags: "accepted",
    run: async (call) => (await import("../commands/config.ts")).print(call),
  },
  {
    name: "log inspect",
    group: "check",
    about: "Looks into the commit log of a data directory; changes nothing.",
    details: [
      "Also while a server writes it. Keys are shown, values are not. Ends with 4 when something",
      "durable is missing.",
    ],
    options: [
      {
        name: "from",
        value: "index",
        about: "Show records from this one on; the last unless told.",
      },
      { name: "limit", value: "number", about: "How many records to show; 20 unless told." },
      { name: "ops", about: "Show what each record changes." },
      { name: "task", value: "id", about: "Only records that change something of this task." },
      {
        name: "shard",
        value: "number",
        about: "Only the log of this shard, or `control` for that of API keys; all unless told.",
      },
    ],
    serverFlags: "accepted",
    examples: [
      {
        line: "log inspect --data-dir .codeq/data --ops",
        about: "the last changes of a dev server",
      },
    ],
    run: async (call) => (await import("../commands/log.ts")).inspect(call),
  },
  {
    name: "cluster status",
    group: "check",
    about:
      "Shows the nodes of a cluster and who leads each shard. Ends with 9 when nobody leads one.",
    connects: true,
    examples: [
      { line: "cluster status --base-url http://10.0.0.2:8080", about: "as one node sees it" },
    ],
    run: async (call) => (await import("../commands/cluster.ts")).status(call),
  },
  {
    name: "shards migrate",
    group: "check",
    about: "Changes the number of shards of a data directory, while no server uses it.",
    details: [
      "Copies all tasks to new stores beside the old ones, compares them, exchanges them and removes",
      "the old ones. It needs as much free space as the data takes. Interrupted, it goes on with the",
      "next run; until it is finished, a server refuses to start.",
    ],
    options: [
      { name: "to", value: "number", about: "The new number of shards, from 1 to 64." },
      { name: "abort", about: "Give up a change that is not finished, and keep the old number." },
      {
        name: "set-aside-damaged",
        about: "Leave out tasks that cannot be read; their bytes are kept in quarantine.",
      },
    ],
    serverFlags: "accepted",
    examples: [
      { line: "shards migrate --to 4 --config /etc/codeq.yaml", about: "four shards from now on" },
    ],
    run: async (call) => (await import("../commands/shards.ts")).migrate(call),
  },
  {
    name: "salvage",
    group: "check",
    about: "Prints the tasks of a damaged data directory that can still be read, as JSON lines.",
    details: [
      "For a directory that no server opens any more and of which there is no backup. Changes nothing.",
      "Stop the server first. Says on standard error what cannot be read, and ends with 4 then.",
    ],
    serverFlags: "accepted",
    examples: [
      {
        line: "salvage --data-dir /var/lib/codeq > tasks.jsonl",
        about: "what is left of a server's tasks",
      },
    ],
    run: async (call) => (await import("../commands/salvage.ts")).run(call),
  },
  {
    name: "version",
    group: "check",
    about: "Says which versions run here.",
    run: async (call) => (await import("../commands/version.ts")).run(call),
  },
  {
    name: "completion",
    group: "shell",
    about: "Prints a script that teaches a shell the commands and options.",
    arguments: [
      { name: "shell", about: "One of bash, zsh and fish.", choices: ["bash", "zsh", "fish"] },
    ],
    examples: [
      {
        line: "completion bash > ~/.local/share/bash-completion/completions/codeq",
        about: "for bash",
      },
    ],
    run: async (call) => (await import("../commands/completion.ts")).run(call),
  },
  {
    name: "help",
    group: "shell",
    about: "Says how a command is used.",
    arguments: [
      { name: "command", about: "Everything unless told.", optional: true },
      { name: "verb", about: "The second word of the command.", optional: true },
    ],
    run: async (call) => (await import("../commands/help.ts")).run(call),
  },
];
