/** The rows of commands for subscriptions. */
import type { ArgumentRow, CommandRow, OptionRow } from "../command.ts";
import { commandsOf } from "./commands-of.ts";

const subscriptionId: ArgumentRow = { name: "id", about: "The id of the subscription." };
const workerToken = "It needs a worker's token with the scope codeq:subscribe.";
const admin: OptionRow = {
  name: "as-admin",
  about: "With an administrator's token: all subscriptions of the tenant.",
};
const ttl: OptionRow = {
  name: "ttl",
  sets: "ttlSeconds",
  value: "time",
  about: "How long it lasts; default: 5m.",
};

export const subscriptionCommands: readonly CommandRow[] = commandsOf(
  { group: "watch", details: [workerToken] },
  () => import("../commands/subscriptions.ts"),
  {
    "subscriptions create": {
      about: "Subscribes a URL to notifications about queues that have work.",
      details: [
        "The URL gets a POST when a queue begins to have tasks, and again after the interval while it has",
        "some. The subscription ends by itself unless it is renewed.",
        workerToken,
      ],
      arguments: [
        { name: "url", about: "The URL that receives the notifications, with http or https." },
      ],
      options: [
        {
          name: "events",
          sets: "eventTypes",
          value: "commands",
          multiple: true,
          about:
            "Commands to be notified of, separated by commas (default: all commands of the token).",
        },
        ttl,
        {
          name: "mode",
          sets: "deliveryMode",
          value: "mode",
          choices: ["fanout", "group", "hash"],
          about:
            "Which of several subscribers is notified; default: fanout, or group with --group.",
        },
        {
          name: "group",
          sets: "groupId",
          value: "name",
          about: "Subscribers with the same group take turns.",
        },
        {
          name: "min-interval",
          sets: "minIntervalSeconds",
          value: "time",
          about: "Shortest time between two notifications about the same queue; default: 5s.",
        },
        admin,
      ],
      examples: [
        {
          line: "subscriptions create https://worker.example.com/wake --events resize --group resizers",
          about: "one of the resizers at a time",
        },
      ],
    },
    "subscriptions list": {
      about: "Lists the subscriptions to queues that have work.",
      options: [admin],
    },
    "subscriptions get": {
      about: "Shows a subscription.",
      arguments: [subscriptionId],
      options: [admin],
    },
    "subscriptions renew": {
      about: "Lets a subscription last from now on for so long.",
      arguments: [subscriptionId],
      options: [ttl, admin],
    },
    "subscriptions delete": {
      about: "Ends a subscription at once.",
      arguments: [subscriptionId],
      options: [admin],
    },
  },
);
