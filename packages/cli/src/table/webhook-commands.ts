/** The rows of commands for webhooks. */
import type { CommandRow } from "../command.ts";

const administrator = "Needs an admin token, and covers the tenant of the token.";
const since = "Only webhooks given up at or after this time.";

export const webhookCommands: readonly CommandRow[] = [
  {
    name: "webhooks log",
    group: "repair",
    about: "Shows the delivery of the webhook of a task: each try, its answer, and the next try.",
    details: [administrator],
    arguments: [
      {
        name: "id",
        about: "The id of a task, or at least 4 characters of its beginning or end.",
      },
    ],
    connects: true,
    run: async (call) => (await import("../commands/webhooks.ts")).log(call),
  },
  {
    name: "webhooks failed",
    group: "repair",
    about: "Lists webhooks that were given up, the earliest first.",
    details: [administrator],
    options: [{ name: "since", value: "instant", about: since }],
    connects: true,
    run: async (call) => (await import("../commands/webhooks.ts")).failed(call),
  },
  {
    name: "webhooks redeliver",
    group: "repair",
    about: "Sends results to their webhooks once more, with all tries.",
    details: [administrator],
    arguments: [{ name: "id", about: "The id of a task.", optional: true }],
    options: [
      { name: "since", value: "instant", about: since },
      { name: "url", value: "url", about: "Only those whose URL begins like this." },
      { name: "limit", value: "number", about: "Change at most this many tasks (default: 1000)." },
      { name: "dry-run", about: "Count them, and send nothing." },
    ],
    connects: true,
    examples: [
      { line: "webhooks redeliver 3f2a9c1e", about: "replay one dead letter" },
      {
        line: "webhooks redeliver --since 2026-01-02T03:00:00Z",
        about: "all webhooks given up since that time",
      },
    ],
    run: async (call) => (await import("../commands/webhooks.ts")).redeliver(call),
  },
  {
    name: "webhooks endpoints",
    group: "repair",
    about: "Lists endpoints of webhooks that fail or are disabled.",
    details: [administrator],
    connects: true,
    run: async (call) => (await import("../commands/webhooks.ts")).endpoints(call),
  },
  {
    name: "webhooks enable",
    group: "repair",
    about: "Lets webhooks go to a disabled endpoint again.",
    details: [administrator],
    arguments: [{ name: "url", about: "The endpoint, as endpoints shows it." }],
    connects: true,
    run: async (call) => (await import("../commands/webhooks.ts")).enable(call),
  },
  {
    name: "webhooks secrets",
    group: "access",
    about: "Lists the secrets that sign the webhooks of the token's tenant, without their texts.",
    connects: true,
    run: async (call) => (await import("../commands/webhooks.ts")).secrets(call),
  },
  {
    name: "webhooks rotate",
    group: "access",
    about: "Creates a secret that signs webhooks; its text is printed this once.",
    details: ["The secret before it signs as well until the overlap has passed.", administrator],
    options: [
      {
        name: "overlap",
        value: "time",
        about: "How long the secret before it signs as well; default: 1d.",
      },
    ],
    connects: true,
    run: async (call) => (await import("../commands/webhooks.ts")).rotate(call),
  },
  {
    name: "webhooks revoke",
    group: "access",
    about: "Ends a secret that signs webhooks.",
    details: [administrator],
    arguments: [{ name: "id", about: "The id of a secret, as secrets shows it." }],
    connects: true,
    run: async (call) => (await import("../commands/webhooks.ts")).revoke(call),
  },
];
