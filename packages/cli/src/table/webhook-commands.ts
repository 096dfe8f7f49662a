/** The rows of commands for webhooks. */
import type { CommandRow } from "../command.ts";
import { commandsOf } from "./commands-of.ts";

const administrator = "Needs an admin token, and covers the tenant of the token.";
const details = [administrator];
const since = "Only webhooks given up at or after this time.";
const load = () => import("../commands/webhooks.ts");

export const webhookCommands: readonly CommandRow[] = [
  ...commandsOf({ group: "repair", details }, load, {
    "webhooks log": {
      about: "Shows the delivery of the webhook of a task: each try, its answer, and the next try.",
      arguments: [
        {
          name: "id",
          about: "The id of a task, or at least 4 characters of its beginning or end.",
        },
      ],
    },
    "webhooks failed": {
      about: "Lists webhooks that were given up, the earliest first.",
      options: [{ name: "since", value: "instant", about: since }],
    },
    "webhooks redeliver": {
      about: "Sends results to their webhooks once more, with all tries.",
      arguments: [{ name: "id", about: "The id of a task.", optional: true }],
      options: [
        { name: "since", value: "instant", about: since },
        { name: "url", value: "url", about: "Only those whose URL begins like this." },
        {
          name: "limit",
          value: "number",
          about: "Change at most this many tasks (default: 1000).",
        },
        { name: "dry-run", about: "Count them, and send nothing." },
      ],
      examples: [
        { line: "webhooks redeliver 3f2a9c1e", about: "send one webhook again" },
        {
          line: "webhooks redeliver --since 2026-01-02T03:00:00Z",
          about: "all webhooks given up since that time",
        },
      ],
    },
    "webhooks endpoints": {
      about: "Lists endpoints of webhooks that fail or are disabled.",
    },
    "webhooks enable": {
      about: "Lets webhooks go to a disabled endpoint again.",
      arguments: [{ name: "url", about: "The endpoint, as endpoints shows it." }],
    },
  }),
  ...commandsOf({ group: "access", details }, load, {
    "webhooks secrets": {
      about: "Lists the secrets that sign the webhooks of the token's tenant, without their texts.",
      details: [],
    },
    "webhooks rotate": {
      about: "Creates a secret that signs webhooks; its text is printed this once.",
      details: ["The secret before it signs as well until the overlap has passed.", administrator],
      options: [
        {
          name: "overlap",
          sets: "overlapSeconds",
          value: "time",
          about: "How long the secret before it signs as well; default: 1d.",
        },
      ],
    },
    "webhooks revoke": {
      about: "Ends a secret that signs webhooks.",
      arguments: [{ name: "id", about: "The id of a secret, as secrets shows it." }],
    },
  }),
];
