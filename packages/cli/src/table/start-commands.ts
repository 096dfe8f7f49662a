/** Rows of the commands that start something. */
import type { CommandRow } from "../command.ts";
import { yes } from "../shared-options.ts";

export const startCommands: readonly CommandRow[] = [
  {
    name: "dev",
    group: "start",
    about: "Starts a server for development: a token, lines to paste, and what happens.",
    details: [
      "It is the server of production on this machine only. Its data stays in .codeq/data of the",
      "current directory until --fresh.",
    ],
    options: [
      { name: "fresh", about: "Remove the tasks of earlier runs first; asks before it does." },
      yes,
    ],
    serverFlags: "accepted",
    examples: [
      { line: "dev", about: "a server on http://127.0.0.1:8080" },
      { line: "dev --port 9000 --fresh --yes", about: "on another port, with nothing in it" },
    ],
    run: async (call) => (await import("../commands/dev.ts")).run(call),
  },
  {
    name: "serve",
    group: "start",
    about: "Starts the server with all its settings.",
    details: ["Settings come from defaults, then a file, then the environment, then flags."],
    serverFlags: "listed",
    examples: [
      { line: "serve --config /etc/codeq.yaml", about: "with the settings of a file" },
      { line: "serve --data-dir ./data --durability fsync", about: "with flags" },
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
    about: "Writes a task, a worker and a test into the project in this directory.",
    details: ["Nothing that exists is overwritten."],
    options: [
      { name: "dir", value: "folder", about: "Where to; codeq unless told." },
      {
        name: "language",
        value: "language",
        choices: ["ts", "js"],
        about: "TypeScript or JavaScript; what the project uses unless told.",
      },
    ],
    otherOptions: "codeq auth set writes a profile: --base-url <url> --producer-token <token>",
    examples: [
      {
        line: "init",
        about: "codeq/tasks.ts, codeq/worker.ts and codeq/tasks.test.ts, or what suits the project",
      },
    ],
    run: async (call) => (await import("../commands/init.ts")).run(call),
  },
];
