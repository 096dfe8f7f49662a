/** The rows of commands for the outbox in a Postgres database. */
import type { CommandRow, OptionRow } from "../command.ts";

const databaseUrl: OptionRow = {
  name: "database-url",
  value: "url",
  env: "CODEQ_DATABASE_URL",
  about: "Address of the database, such as postgres://user:password@host/database.",
};

export const outboxCommands: readonly CommandRow[] = [
  {
    name: "outbox sql",
    group: "tasks",
    about: "Prints the SQL that creates the tables of the outbox.",
    details: [
      "Put it into a migration of your application. Running it again changes nothing. It needs Postgres",
      "14 or later.",
    ],
    options: [
      {
        name: "no-notify",
        about: "Leave out the trigger that wakes the relays; they poll once a second.",
      },
    ],
    run: async (call) => (await import("../commands/outbox.ts")).sql(call),
  },
  {
    name: "outbox relay",
    group: "tasks",
    about: "Creates the tasks that transactions of a database have enqueued, until you stop it.",
    details: [
      "Any number of relays may run for one database. The relay needs a connection of its own to Postgres, not",
      "one through a pooler in transaction mode. Pass the address in the environment variable to keep the",
      "password out of the list of processes.",
    ],
    options: [
      databaseUrl,
      {
        name: "ordered",
        about:
          "Create tasks one by one in the order of their rows; other relays of the database wait.",
      },
      { name: "batch", value: "number", about: "Rows of one transaction (default: 500)." },
      {
        name: "metrics-addr",
        value: "address",
        about: "Serve metrics of the outbox at this host:port, at /metrics.",
      },
    ],
    connects: true,
    examples: [
      {
        line: "outbox relay --database-url postgres://shop@localhost/shop",
        about: "run a relay beside a server on this machine",
      },
    ],
    run: async (call) => (await import("../commands/outbox.ts")).relay(call),
  },
  {
    name: "outbox status",
    group: "tasks",
    about: "Counts the rows of the outbox that wait and that the server refused.",
    options: [databaseUrl],
    run: async (call) => (await import("../commands/outbox.ts")).status(call),
  },
  {
    name: "outbox retry",
    group: "tasks",
    about: "Lets relays try refused rows of the outbox again.",
    arguments: [
      {
        name: "id",
        about: "The id of a row; default: all refused rows.",
        optional: true,
        multiple: true,
      },
    ],
    options: [databaseUrl],
    run: async (call) => (await import("../commands/outbox.ts")).retry(call),
  },
];
