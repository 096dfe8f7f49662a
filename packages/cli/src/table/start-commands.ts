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
      "stores its data in .codeq/data of the current directory.",
    ],
    options: [
      { name: "fresh", about: "Delete the data of earlier runs first, after asking." },
      yes,
    ],
    serverFlags: "accepted",
    examples: [
      { line: "dev", about: "start a server on http://127.0.0.1:8080" },
      { line: "dev --port 9000 --fresh --yes", about: "use another port and delete earlier data" },
    ],
    run: async (call) => (await import("../commands/dev.ts")).run(call),
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
    run: async (call) => (await import("../commands/serve.ts")).run(call),
  },
  {
    name: "cluster dev",
    group: "start",
    about:
      "Starts a cluster of three nodes on this machine, to try what happens when one is killed.",
    details: [
      "Needs nats-server 2.14.5 or newer. The data stays in .codeq/cluster of the current directory. A node",
      "that ends is started again after ten seconds.",
    ],
    serverFlags: "accepted",
    examples: [
      { line: "cluster dev", about: "three nodes; their addresses and process ids are shown" },
      { line: "cluster dev --nats-server ./nats-server", about: "with a nats-server elsewhere" },
    ],
    run: async (call) => (await import("../commands/cluster-dev.ts")).dev(call),
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
