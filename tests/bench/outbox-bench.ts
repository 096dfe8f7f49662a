/**
 * The relay of the outbox with a real Postgres: rows a second, how much later a task comes than one that is enqueued
 * directly, and what a relay without work costs. Relay, server and Postgres are processes of their own; the
 * transactions and the worker run in the process of the benchmark.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, codeq } from "@codeq/client";
import type pg from "pg";
import { Child, root, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { noPostgres, PostgresServer } from "../outbox/postgres-server.ts";
import { outbox, sendMail } from "../outbox/send-mail.ts";
import { cpuOf } from "./cpu-time.ts";
import { duration, readOptions, wholeNumber } from "./options.ts";
import { SetupError } from "./programs.ts";

export const outboxHelp = `the relay of the outbox, with a real Postgres; fsync everywhere
    --rows 20000     rows that wait when the relay starts
    --rate 100       transactions a second, for the delay of a task
    --seconds 20     how long the transactions go on, and how long the relay is watched without work`;

export async function outboxBench(args: readonly string[]): Promise<void> {
  const { rows, rate, seconds } = readOptions(args, {
    rows: wholeNumber("20000"),
    rate: wholeNumber("100"),
    seconds: duration("20"),
  });
  if (noPostgres !== false) throw new SetupError(noPostgres);
  const postgres = await PostgresServer.open();
  const directory = temporaryDirectory();
  const server = await startServer({ dataDir: directory.path });
  const relays: Child[] = [];
  try {
    const tx = await postgres.database.client();
    await fill(tx, rows);
    const relay = startRelay(postgres.database.url, server.url);
    relays.push(relay);
    await relay.anyLine((line) => line.includes('"ready"'));
    const startedMs = performance.now();
    await emptied(relay, rows);
    const took = (performance.now() - startedMs) / 1000;
    console.log(`rows a second through one relay: ${Math.round(rows / took)}`);

    await using client = codeq({ url: server.url });
    await drained(client, rows);
    const load = { client, tx, rate, seconds };
    const direct = await delays(load, (order) => client.enqueue(sendMail, { order }));
    const through = await delays(load, (order) => commitOne(tx, order));
    console.log(`ms until a worker has the task, at ${rate} a second:`);
    console.log(`  enqueued directly, from the call     ${inWords(direct)}`);
    console.log(`  through the outbox, from the commit  ${inWords(through)}`);

    // Only statements of the relay are to be counted.
    await tx.query("ALTER SYSTEM SET autovacuum = off");
    await tx.query("SELECT pg_reload_conf()");
    // Connections report what they did about a second after they did it.
    for (let times = 0; times < 3; times += 1) {
      await watched(tx, relay);
      await sleep(settledMs);
    }
    const before = await watched(tx, relay);
    await sleep(seconds * 1000);
    const after = await watched(tx, relay);
    // The first of the two looks is a statement too.
    const queries = (after.statements - before.statements - 1) / seconds;
    const cpu = (100 * (after.cpuSeconds - before.cpuSeconds)) / seconds;
    console.log(
      `without work: ${queries.toFixed(2)} queries a second, ${cpu.toFixed(2)} % of a CPU`,
    );
    await tx.end();
  } finally {
    await Promise.all(relays.map((relay) => relay.kill()));
    await server.kill();
    await postgres.dispose();
    directory.dispose();
  }
}

const settledMs = 1500;
const rowsTogether = 1000;

async function fill(tx: pg.Client, rows: number): Promise<void> {
  for (let first = 0; first < rows; first += rowsTogether) {
    const length = Math.min(rowsTogether, rows - first);
    const items = Array.from({ length }, (_, at) => ({ input: { order: first + at } }));
    await tx.query("BEGIN");
    await outbox.enqueueMany(tx, sendMail, items);
    await tx.query("COMMIT");
  }
  await tx.query("ANALYZE codeq_outbox");
}

/** As `codeq outbox relay` runs it. */
function startRelay(databaseUrl: string, url: string): Child {
  const program = join(root, "packages/cli/src/main.ts");
  const args = ["--conditions=source", program, "outbox", "relay", "--json", "--base-url", url];
  const env = { ...process.env, CODEQ_DATABASE_URL: databaseUrl };
  return new Child(spawn(process.execPath, args, { cwd: root, env, stdio: "pipe" }));
}

async function emptied(relay: Child, rows: number): Promise<void> {
  let delivered = 0;
  await relay.anyLine((line) => {
    delivered += Number(/"delivered","tasks":(\d+)/.exec(line)?.[1] ?? 0);
    return delivered >= rows;
  });
}

async function drained(client: Client, rows: number): Promise<void> {
  await client.worker(
    sendMail.handle(() => {}),
    { concurrency: 1000, maxTasks: rows },
  ).done;
}

async function commitOne(tx: pg.Client, order: number): Promise<number> {
  await tx.query("BEGIN");
  await outbox.enqueue(tx, sendMail, { order });
  await tx.query("COMMIT");
  return performance.now();
}

interface Load {
  readonly client: Client;
  readonly tx: pg.Client;
  readonly rate: number;
  readonly seconds: number;
}

/** From when `enqueue` says, or else from its call, until a worker has the task. */
async function delays(
  { client, rate, seconds }: Load,
  enqueue: (order: number) => Promise<unknown>,
): Promise<number[]> {
  const count = Math.round(rate * seconds);
  const cameMs = new Map<number, number>();
  const worker = client.worker(
    sendMail.handle(({ order }) => void cameMs.set(order, performance.now())),
    { concurrency: 100, maxTasks: count },
  );
  const sentMs = new Map<number, number>();
  const startedMs = performance.now();
  let last: Promise<void> = Promise.resolve();
  for (let order = 0; order < count; order += 1) {
    const waitMs = startedMs + (1000 * order) / rate - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const calledMs = performance.now();
    // One connection: a transaction begins when the one before has ended.
    last = last
      .then(() => enqueue(order))
      .then((answer) => void sentMs.set(order, typeof answer === "number" ? answer : calledMs));
  }
  await last;
  await worker.done;
  return [...sentMs]
    .map(([order, atMs]) => (cameMs.get(order) ?? Number.NaN) - atMs)
    .sort((a, b) => a - b);
}

function inWords(sorted: readonly number[]): string {
  const at = (share: number): string =>
    (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0).toFixed(1);
  return `p50 ${at(0.5)}  p99 ${at(0.99)}`;
}

async function watched(
  tx: pg.Client,
  relay: Child,
): Promise<{ readonly statements: number; readonly cpuSeconds: number }> {
  const { rows } = await tx.query(
    "SELECT xact_commit + xact_rollback AS statements FROM pg_stat_database WHERE datname = current_database()",
  );
  return { statements: Number(rows[0].statements), cpuSeconds: (await cpuOf(relay)).seconds };
}
