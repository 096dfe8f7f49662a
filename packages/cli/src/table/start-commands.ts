/** The rows of commands that start a server, a worker or a project. */
import type { CommandRow } from "../command.ts";
import { yes } from "../shared-options.ts";

export const startCommands: readonly CommandRow[] = [
  {
    name: "dev",
    group: "start",
    about: "Starts a server for development and prints its address, a token and its events.",
    details: [
      "Runs the production server with development settings: it listens on this machine only, and",
      "stores its data in .codeq/data of the current directory. With the program of a worker, it also runs that in Node,",
      "with the address and the token of the server (CODEQ_URL, CODEQ_TOKEN), restarts it when one of its files changes,",
      "and prints a line for every run of a task. Tasks that run at a restart are handed back and lose no attempt.",
    ],
    arguments: [
      { name: "worker", about: "A program with a worker, such as worker.ts.", optional: true },
    ],
    options: [
      { name: "fresh", about: "Delete the data of earlier runs first, after asking." },
      yes,
    ],
    serverFlags: "accepted",
    examples: [
      { line: "dev", about: "start a server on http://127.0.0.1:8080" },
      { line: "dev worker.ts", about: "run a worker beside it, restarted on every change" },
      { line: "dev --port 9000 --fresh --yes", about: "use another port and delete earlier data" },
    ],
    run: async (call) => (await import("../commands/server/dev.ts")).run(call),
  },
  {
    name: "serve",
    group: "start",
    about: "Starts the server with the given settings.",
    details: ["Flags override environment variables, which override the configuration file."],
    serverFlags: "listed",
    examples: [
      { line: "serve --config /etc/codeq.yaml", about: "read settings from a file" },
      { line: "serve --data-dir ./data --durability fsync", about: "pass settings as flags" },
    ],
    run: async (call) => (await import("../commands/server/serve.ts")).run(call),
  },
  {
    name: "test-server",
    group: "start",
    about: "Starts a server in memory for a test, with a clock that the test moves.",
    details: [
      "Prints its address as a line of JSON. Each line of the standard input, such as advance 3600000, moves the clock of",
      "the server by so many milliseconds, and is answered when everything that became due has happened. The server ends",
      "with its input. Settings come from environment variables; webhooks are not sent.",
    ],
    examples: [
      { line: "test-server", about: "for tests; the fixtures of the Python and Go clients run it" },
    ],
    run: async (call) => (await import("../commands/server/test-server.ts")).run(call),
  },
  {
    name: "cluster dev",
    group: "start",
    about:
      "Starts a cluster of three nodes on this machine, to try what happens when one is killed.",
    details: [
      "Needs etcd, which the image and the archive of the executable contain; otherwise run codeq cluster install-log",
      "once. The data stays in .codeq/cluster of the current directory. A node that ends is started again after ten",
      "seconds.",
    ],
    serverFlags: "accepted",
    examples: [
      { line: "cluster dev", about: "three nodes; their addresses and process ids are shown" },
      { line: "cluster dev --etcd-program ./etcd", about: "with an etcd elsewhere" },
    ],
    run: async (call) => (await import("../commands/server/cluster-dev.ts")).dev(call),
  },
  {
    name: "cluster install-log",
    group: "start",
    about: "Builds etcd, which keeps the log of a cluster, for this user.",
    details: [
      "Needs Go 1.26 or newer and its module proxy. The container image and the archive of the executable contain",
      "etcd already. An etcd 3.6 of your own works as well: set etcdProgram, or put it in the PATH.",
    ],
    examples: [{ line: "cluster install-log", about: "once on each machine" }],
    run: async (call) => (await import("../commands/server/install-log.ts")).run(call),
  },
  {
    name: "init",
    group: "start",
    about: "Writes a sample task, worker and test into the project in this directory.",
    details: ["Existing files are not overwritten."],
    options: [
      { name: "dir", value: "folder", about: "Folder for the files (default: codeq)." },
      {
        name: "language",
        value: "language",
        choices: ["ts", "js"],
        about: "TypeScript or JavaScript (default: the language of the project).",
      },
    ],
    otherOptions: "codeq auth set writes a profile: --base-url <url> --producer-token <token>",
    examples: [
      {
        line: "init",
        about:
          "write codeq/tasks.ts, codeq/worker.ts and codeq/tasks.test.ts, or the .mjs variants",
      },
    ],
    run: async (call) => (await import("../commands/init.ts")).run(call),
  },
];
