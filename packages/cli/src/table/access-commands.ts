/** Rows of the commands about tokens, keys and profiles. */
import type { ArgumentRow, CommandRow } from "../command.ts";

const keyId: ArgumentRow = { name: "id", about: "The id of a key, as list shows it." };

export const accessCommands: readonly CommandRow[] = [
  {
    name: "token show",
    group: "access",
    about: "Prints the token that commands use.",
    options: [{ name: "worker", about: "That of the worker." }],
    connects: true,
    run: async (call) => (await import("../commands/token.ts")).show(call),
  },
  {
    name: "token verify",
    group: "access",
    about: "Asks the server what the tokens may do; changes nothing.",
    connects: true,
    run: async (call) => (await import("../commands/token.ts")).verify(call),
  },
  {
    name: "token decode",
    group: "access",
    about: "Shows what is written in a token, without checking it.",
    arguments: [{ name: "token", about: "The one that commands use unless told.", optional: true }],
    connects: true,
    run: async (call) => (await import("../commands/token.ts")).decode(call),
  },
  {
    name: "token create",
    group: "access",
    about: "Makes a token, and the setting with which a server accepts it.",
    details: ["Nothing is sent or stored. To make keys on a running server, use codeq key create."],
    options: [
      { name: "worker", about: "For workers; for producers unless told." },
      { name: "admin-role", about: "For an administrator." },
      { name: "tenant", value: "name", about: "Whose tasks it is for; main unless told." },
      { name: "subject", value: "name", about: "Who it stands for; codeq unless told." },
      { name: "events", value: "commands", about: "Commands a worker may do, with commas; all." },
    ],
    run: async (call) => (await import("../commands/token.ts")).create(call),
  },
  {
    name: "key create",
    group: "access",
    about: "Makes an API key on the server; its text is printed this once.",
    arguments: [{ name: "name", about: "What the key is for." }],
    options: [
      {
        name: "scopes",
        value: "scopes",
        multiple: true,
        about: "What it may do, with commas: create, claim, heartbeat, nack, abandon, result.",
      },
      {
        name: "events",
        value: "commands",
        multiple: true,
        about: "Commands it is for, with commas; all.",
      },
      {
        name: "role",
        value: "role",
        choices: ["none", "admin", "operator"],
        about: "A role; none.",
      },
      { name: "expires-in", value: "time", about: "When it ends, such as 30d; never unless told." },
      { name: "expires-at", value: "instant", about: "The same as a moment." },
    ],
    connects: true,
    examples: [
      { line: "key create shop --scopes create", about: "for a producer" },
      {
        line: "key create resizer --scopes claim,heartbeat,nack,abandon,result --events resize --expires-in 90d",
        about: "for a worker on one queue",
      },
    ],
    run: async (call) => (await import("../commands/key.ts")).create(call),
  },
  {
    name: "key list",
    group: "access",
    about: "Lists the API keys of the token's tenant.",
    connects: true,
    run: async (call) => (await import("../commands/key.ts")).list(call),
  },
  {
    name: "key revoke",
    group: "access",
    about: "Ends an API key at once.",
    arguments: [keyId],
    connects: true,
    run: async (call) => (await import("../commands/key.ts")).revoke(call),
  },
  {
    name: "keys create",
    group: "access",
    about: "Makes an API key in the data directory of a server that is stopped.",
    details: [
      "It needs no token, only the files: for the first key, and when all keys are lost. The key is",
      "printed as JSON; its text is shown this once.",
    ],
    options: [
      { name: "tenant", value: "tenant", about: "The tenant that the key is for." },
      { name: "name", value: "name", about: "What the key is for." },
      { name: "scopes", value: "scopes", about: "Such as codeq:create,codeq:claim." },
      { name: "event-types", value: "commands", about: "Commands it is for, with commas; all." },
      {
        name: "role",
        value: "role",
        choices: ["none", "admin", "operator"],
        about: "A role; none.",
      },
      { name: "expires-in", value: "time", about: "When it ends, such as 30d; never unless told." },
      { name: "expires-at", value: "instant", about: "The same as a moment." },
    ],
    serverFlags: "accepted",
    examples: [
      {
        line: "keys create --tenant acme --name rescue --role admin --data-dir ./data",
        about: "to get in again",
      },
    ],
    run: async (call) => (await import("../commands/keys.ts")).run(call),
  },
  {
    name: "keys list",
    group: "access",
    about: "Lists the API keys in the data directory of a server that is stopped.",
    options: [{ name: "tenant", value: "tenant", about: "Only those of this tenant." }],
    serverFlags: "accepted",
    run: async (call) => (await import("../commands/keys.ts")).run(call),
  },
  {
    name: "keys revoke",
    group: "access",
    about: "Ends an API key in the data directory of a server that is stopped.",
    arguments: [keyId],
    serverFlags: "accepted",
    run: async (call) => (await import("../commands/keys.ts")).run(call),
  },
  {
    name: "auth set",
    group: "access",
    about: "Keeps a server and tokens in a profile.",
    details: [
      "Profiles are in ~/.codeq/config.yaml, or in config.yaml of CODEQ_CONFIG_DIR, readable by their",
      "owner only. Without --profile it is the current one, or default.",
    ],
    options: [{ name: "current", about: "Use this profile from now on where none is named." }],
    connects: true,
    examples: [
      {
        line: "auth set --base-url https://queue.example.com --token s3cret",
        about: "the default profile",
      },
    ],
    run: async (call) => (await import("../commands/auth.ts")).set(call),
  },
  {
    name: "auth show",
    group: "access",
    about: "Lists the profiles, with their tokens masked.",
    connects: true,
    run: async (call) => (await import("../commands/auth.ts")).show(call),
  },
  {
    name: "auth clear",
    group: "access",
    about: "Removes tokens from a profile.",
    options: [
      { name: "producer", about: "That of the producer only." },
      { name: "worker", about: "That of the worker only." },
      { name: "all", about: "Both, as without any option." },
    ],
    connects: true,
    run: async (call) => (await import("../commands/auth.ts")).clear(call),
  },
];
