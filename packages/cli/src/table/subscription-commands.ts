/** The rows of commands for subscriptions. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";

const subscriptionId: ArgumentRow = { name: "id", about: "The id of the subscription." };
const workerToken = "It needs a worker's token with the scope codeq:subscribe.";
const admin: OptionRow = {
  name: "as-admin",
  about: "With an administrator's token: all subscriptions of the tenant.",
};
const ttl: OptionRow = { name: "ttl", value: "time", about: "How long it lasts; default: 5m." };

export const subscriptionCommands: readonly CommandRow[] = [
  {
    name: "subscriptions create",
    group: "watch",
    about: "Subscribes a URL to notifications about queues that have work.",
    details: [
      "The URL gets a POST when a queue begins to have tasks, and again after the interval while it has",
      "some. The subscription ends by itself unless it is renewed.",
      workerToken,
    ],
    arguments: [{ name: "url", about: "The URL that is told, with http or https." }],
    options: [
      {
        name: "events",
        value: "commands",
        multiple: true,
        about:
          "Commands to be notified of, separated by commas (default: all commands of the token).",
      },
      ttl,
      {
        name: "mode",
        value: "mode",
        choices: ["fanout", "group", "hash"],
        about: "Who of several subscribers is told; default: fanout, or group with --group.",
      },
      { name: "group", value: "name", about: "Subscribers with the same group take turns." },
      {
        name: "min-interval",
        value: "time",
        about: "Shortest time between two notifications about the same queue; default: 5s.",
      },
      admin,
    ],
    connects: true,
    examples: [
      {
        line: "subscriptions create https://worker.example.com/wake --events resize --group resizers",
        about: "one of the resizers at a time",
      },
    ],
    run: async (call) => (await import("../commands/subscriptions.ts")).create(call),
  },
  {
    name: "subscriptions list",
    group: "watch",
    about: "Lists the subscriptions to queues that have work.",
    details: [workerToken],
    options: [admin],
    connects: true,
    run: async (call) => (await import("../commands/subscriptions.ts")).list(call),
  },
  {
    name: "subscriptions get",
    group: "watch",
    about: "Shows a subscription.",
    details: [workerToken],
    arguments: [subscriptionId],
    options: [admin],
    connects: true,
    run: async (call) => (await import("../commands/subscriptions.ts")).get(call),
  },
  {
    name: "subscriptions renew",
    group: "watch",
    about: "Lets a subscription last from now on for so long.",
    details: [workerToken],
    arguments: [subscriptionId],
    options: [ttl, admin],
    connects: true,
    run: async (call) => (await import("../commands/subscriptions.ts")).renew(call),
  },
  {
    name: "subscriptions delete",
    group: "watch",
    about: "Ends a subscription at once.",
    details: [workerToken],
    arguments: [subscriptionId],
    options: [admin],
    connects: true,
    run: async (call) => (await import("../commands/subscriptions.ts")).remove(call),
  },
];
