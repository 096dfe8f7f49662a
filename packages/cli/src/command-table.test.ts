import assert from "node:assert/strict";
import { test } from "node:test";
import { commandTable } from "./command-table.ts";
import { helpFor } from "./help.ts";
import { optionsOf } from "./parse-arguments.ts";
import { serverFlagRows } from "./shared-options.ts";

/** The commands that issue and contract promise. */
const promised = [
  ...["test-server"],
  ...["dev", "serve", "init", "enqueue", "get", "result", "work", "queues", "top", "tail"],
  ...["nack", "abandon", "heartbeat", "token show", "token verify", "token decode", "token create"],
  ...["audit", "workers", "tenants", "key rotate"],
  ...["key create", "key list", "key revoke", "bench", "doctor", "config print", "log inspect"],
  ...["mcp", "decode"],
  ...["keys create", "keys list", "keys revoke", "salvage"],
  ...[
    "lanes",
    "lanes drain",
    "lanes move",
    "lanes purge",
    "lanes set",
    "lanes delete",
    "lanes pause",
    "lanes resume",
  ],
  ...["version", "completion", "help", "task create", "task get", "task result", "worker start"],
  ...["queue inspect", "auth set", "auth show", "auth clear", "shards migrate"],
  ...["webhooks log", "webhooks failed", "webhooks redeliver", "webhooks endpoints"],
  ...["webhooks enable", "webhooks secrets", "webhooks rotate", "webhooks revoke"],
  ...["artifacts list", "artifacts get"],
  ...["backup", "backup create", "backup verify", "restore"],
  ...["cluster dev", "cluster status", "cluster handoff"],
  ...["cluster add", "cluster remove", "cluster replace", "cluster repair", "cluster install-log"],
  ...["cluster init", "cluster end", "cluster leave"],
  ...[
    "tasks",
    "dlq list",
    "dlq show",
    "dlq triage",
    "dlq edit",
    "dlq groups",
    "dlq replay",
    "dlq delete",
    "dlq purge",
  ],
  ...["pause", "resume", "cancel", "move", "run-now", "reschedule", "set-priority", "edit"],
  ...["subscriptions create", "subscriptions list", "subscriptions get"],
  ...["subscriptions renew", "subscriptions delete"],
  ...["topics set", "topics list", "topics get", "topics delete"],
  ...["why", "dlq redrive", "jobs abort", "jobs list", "jobs pause", "jobs resume", "jobs show"],
  ...["jobs start"],
  ...["schedules put", "schedules list", "schedules get", "schedules delete", "schedules next"],
  ...["schedules pause", "schedules resume", "schedules run", "schedules runs", "schedules why"],
  ...["schedules backfill"],
  ...["batches create", "batches add", "batches seal", "batches list", "batches get"],
  ...["batches members", "batches replay", "batches cancel"],
  ...["outbox relay", "outbox retry", "outbox sql", "outbox status"],
];

test("every promised command has a row, and every row is promised", () => {
  assert.deepEqual(commandTable.map(({ name }) => name).sort(), promised.toSorted());
});

test("no command has an option twice, and none hides a flag of the server by accident", () => {
  const flags = serverFlagRows().map(({ name }) => name);
  for (const row of commandTable) {
    const names = optionsOf(row).map(({ name }) => name);
    assert.equal(new Set(names).size, names.length, row.name);
    const shorts = optionsOf(row).flatMap(({ short }) => short ?? []);
    assert.equal(new Set(shorts).size, shorts.length, row.name);
    if (row.serverFlags === undefined) continue;
    assert.deepEqual(
      names.filter((name) => flags.includes(name)),
      [],
      row.name,
    );
  }
});

test("an option of the same name is a switch everywhere, or takes a value everywhere", () => {
  const kinds = new Map<string, boolean>();
  for (const { name, value } of [...commandTable.flatMap(optionsOf), ...serverFlagRows()]) {
    const takesValue = value !== undefined;
    assert.equal(kinds.get(name) ?? takesValue, takesValue, name);
    kinds.set(name, takesValue);
  }
});

test("sentences end with a period, and begin with a capital", () => {
  for (const row of commandTable) {
    const options = optionsOf(row).map(({ about }) => about);
    const words = (row.arguments ?? []).map(({ about }) => about);
    for (const about of [row.about, ...options, ...words]) {
      assert.match(about, /^[A-Z0-9{-].*\.$/s, `${row.name}: ${about}`);
    }
  }
});

test("help of a command shows its options, arguments and examples", () => {
  for (const row of commandTable) {
    const text = helpFor(row, commandTable);
    assert.ok(text.startsWith(`codeq ${row.name}`), row.name);
    for (const { name } of optionsOf(row))
      assert.ok(text.includes(`--${name}`), `${row.name} ${name}`);
    for (const { line } of row.examples ?? []) assert.ok(text.includes(`codeq ${line}`));
  }
});

test("help of serve lists every setting, and the overview every command", () => {
  const serve = commandTable.find(({ name }) => name === "serve");
  const text = helpFor(serve, commandTable);
  for (const { name } of serverFlagRows()) assert.ok(text.includes(`--${name}`), name);
  const overview = helpFor(undefined, commandTable);
  for (const { name, about } of commandTable) {
    assert.ok(overview.includes(name) && overview.includes(about), name);
  }
});
