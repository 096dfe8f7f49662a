/** The rows of commands for tokens, keys and profiles. */
import type { ArgumentRow, CommandRow } from "../command.ts";
import { commandsOf } from "./commands-of.ts";

const keyId: ArgumentRow = { name: "id", about: "The id of a key, as shown by list." };

export const accessCommands: readonly CommandRow[] = [
  ...commandsOf({ group: "access" }, () => import("../commands/access/token.ts"), {
    "token show": {
      about: "Prints the token that commands use.",
      options: [{ name: "worker", about: "Print the worker token." }],
    },
    "token verify": {
      about: "Asks the server what the tokens allow; changes nothing.",
    },
    "token decode": {
      about: "Shows the contents of a token, without verifying it.",
      arguments: [
        {
          name: "token",
          about: "The token (default: the token that commands use).",
          optional: true,
        },
      ],
    },
  }),
  {
    name: "token create",
    group: "access",
    about: "Creates a token, and the setting that makes a server accept it.",
    details: [
      "Sends and stores nothing. To create keys on a running server, use codeq key create.",
    ],
    options: [
      { name: "worker", about: "Create a worker token (default: a producer token)." },
      { name: "admin-role", about: "Create an admin token." },
      { name: "tenant", value: "name", about: "Tenant of the token (default: main)." },
      { name: "subject", value: "name", about: "Subject of the token (default: codeq)." },
      {
        name: "events",
        value: "commands",
        about: "Commands that a worker may claim, separated by commas (default: all).",
      },
    ],
    run: async (call) => (await import("../commands/access/token.ts")).create(call),
  },
  ...commandsOf({ group: "access" }, () => import("../commands/access/key.ts"), {
    "key create": {
      about: "Creates an API key on the server and prints it once; copy it now.",
      arguments: [{ name: "name", about: "A name for the key." }],
      options: [
        {
          name: "scopes",
          value: "scopes",
          multiple: true,
          about:
            "Permissions, separated by commas: create, claim, heartbeat, nack, abandon, result.",
        },
        {
          name: "events",
          sets: "eventTypes",
          value: "commands",
          multiple: true,
          about: "Commands that the key may use, separated by commas (default: all).",
        },
        {
          name: "role",
          sets: "role",
          value: "role",
          choices: ["none", "viewer", "admin", "operator"],
          about: "Role of the key (default: none).",
        },
        {
          name: "expires-in",
          sets: "expiresInSeconds",
          value: "time",
          about: "Lifetime of the key, such as 30d (default: unlimited).",
        },
        {
          name: "expires-at",
          sets: "expiresAt",
          value: "instant",
          about: "Time at which the key expires.",
        },
      ],
      examples: [
        { line: "key create shop --scopes create", about: "create a key for a producer" },
        {
          line: "key create resizer --scopes claim,heartbeat,nack,abandon,result --events resize --expires-in 90d",
          about: "create a key for a worker of one queue",
        },
      ],
    },
    "key list": { about: "Lists the API keys of the token's tenant." },
    "key rotate": {
      about:
        "Creates a key with the name, permissions and lifetime of another, and prints it once.",
      details: ["The other key stays valid until it is revoked, so that clients can change first."],
      arguments: [keyId],
      options: [{ name: "revoke", about: "Revoke the other key at once." }],
    },
    "key revoke": { about: "Revokes an API key immediately.", arguments: [keyId] },
  }),
  ...commandsOf({ group: "access" }, () => import("../commands/access/who.ts"), {
    audit: {
      about: "Lists what administrators did and who was refused, newest first.",
      details: ["Needs an admin token, and covers the tenant of the token."],
      options: [
        { name: "from", value: "instant", about: "Only records at or after this time." },
        { name: "to", value: "instant", about: "Only records before this time." },
        {
          name: "action",
          value: "action",
          about: "Only records of this action, such as create_api_key.",
        },
        {
          name: "outcome",
          value: "outcome",
          choices: ["ok", "refused", "failed"],
          about: "Only records with this outcome.",
        },
        { name: "limit", value: "number", about: "Number of records to show (default: 50)." },
      ],
      examples: [{ line: "audit --outcome refused", about: "who was refused" }],
    },
    workers: {
      about: "Lists workers that hold leases or have a stream open.",
      details: ["Needs an admin token, and covers the tenant of the token."],
    },
    tenants: {
      about: "Lists the tenants that have tasks.",
      details: ["Needs an operator token."],
    },
  }),
  ...commandsOf(
    { group: "access", serverFlags: "accepted" },
    () => import("../commands/access/keys.ts"),
    {
      "keys create": {
        about: "Creates an API key in the data directory of a stopped server.",
        details: [
          "Needs access to the files, but no token: use it for the first key, or if all keys are lost. The",
          "key is printed as JSON and will not be shown again.",
        ],
        options: [
          { name: "tenant", value: "tenant", about: "Tenant of the key." },
          { name: "name", value: "name", about: "A name for the key." },
          {
            name: "scopes",
            value: "scopes",
            about: "Permissions, such as codeq:create,codeq:claim.",
          },
          {
            name: "event-types",
            value: "commands",
            about: "Commands that the key may use, separated by commas (default: all).",
          },
          {
            name: "role",
            value: "role",
            choices: ["none", "viewer", "admin", "operator"],
            about: "Role of the key (default: none).",
          },
          {
            name: "expires-in",
            value: "time",
            about: "Lifetime of the key, such as 30d (default: unlimited).",
          },
          { name: "expires-at", value: "instant", about: "Time at which the key expires." },
        ],
        examples: [
          {
            line: "keys create --tenant acme --name rescue --role admin --data-dir ./data",
            about: "create an admin key after losing all keys",
          },
        ],
      },
      "keys list": {
        about: "Lists the API keys in the data directory of a stopped server.",
        options: [{ name: "tenant", value: "tenant", about: "Only the keys of this tenant." }],
      },
      "keys revoke": {
        about: "Revokes an API key in the data directory of a stopped server.",
        arguments: [keyId],
      },
    },
  ),
  ...commandsOf({ group: "access" }, () => import("../commands/access/auth.ts"), {
    "auth set": {
      about: "Stores a server address and tokens in a profile.",
      details: [
        "Profiles are stored in ~/.codeq/config.yaml, or in config.yaml of CODEQ_CONFIG_DIR, readable by",
        "their owner only. Without --profile, the command changes the current profile.",
      ],
      options: [{ name: "current", about: "Make this profile the default for all commands." }],
      examples: [
        {
          line: "auth set --base-url https://queue.example.com --token s3cret",
          about: "set the default profile",
        },
      ],
    },
    "auth show": {
      about: "Lists the profiles, with their tokens masked.",
    },
    "auth clear": {
      about: "Removes tokens from a profile.",
      options: [
        { name: "producer", about: "Remove the producer token only." },
        { name: "worker", about: "Remove the worker token only." },
        { name: "all", about: "Remove both tokens (default)." },
      ],
    },
  }),
];
