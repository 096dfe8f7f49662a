/**
 * A relay as a process that can be stopped at a step of its transaction, so that the campaign can kill a process
 * exactly there. It also plants bugs, to see that the campaign notices them. Argument: JSON of `RelayChildOptions`.
 * It prints `at <step>` and goes on when a line comes in.
 */
import { once } from "node:events";
import { codeq } from "@codeq/client";
import pg from "pg";
import { startRelay } from "../../packages/outbox/src/index.ts";

/** Moments of a transaction with rows, in their order. */
export const steps = [
  /** Rows are locked, nothing is sent. */
  "selected",
  /** Rows are being sent; the relay does not stop here. */
  "sending",
  /** The server has acknowledged the tasks. */
  "acknowledged",
  /** The rows are deleted, but not committed. */
  "deleted",
  /** The commit was sent, and its answer is not awaited. */
  "committing",
  "committed",
] as const;
export type Step = (typeof steps)[number];

/** Mistakes that a relay could make. */
export const bugs = ["other key", "deletes first", "cursor"] as const;
export type Bug = (typeof bugs)[number];

export interface RelayChildOptions {
  readonly databaseUrl: string;
  readonly url: string;
  readonly stopAt?: Step | undefined;
  readonly bug?: Bug | undefined;
}

interface Row {
  readonly id: string;
  options: string;
}

type Query = (text: string, values?: unknown[]) => Promise<{ rows: Row[] }>;

let { stopAt }: { stopAt?: Step | undefined } = {};
let rows: Row[] = [];
let lastSeq = "0";

/** Once; afterwards the process runs freely. */
async function pass(step: Step): Promise<void> {
  if (rows.length === 0 || step !== stopAt) return;
  stopAt = undefined;
  console.log(`at ${step}`);
  if (step !== "sending") await once(process.stdin, "data");
}

/** The query of a connection, with stops around the statements of the relay. */
function withStops(query: Query, bug: Bug | undefined): Query {
  return async (text, values) => {
    if (text.startsWith("WITH taken")) {
      rows = (await query(bug === "cursor" ? afterLast(text) : text)).rows;
      if (bug === "cursor" && rows.length > 0) await moveCursor(query);
      if (bug === "deletes first" && rows.length > 0) await deleteNow(query);
      if (bug === "other key") {
        for (const row of rows)
          row.options = JSON.stringify({ idempotencyKey: `${Math.random()}` });
      }
      await pass("selected");
      await pass("sending");
      return { rows };
    }
    if (text.startsWith("DELETE FROM codeq_outbox")) {
      await pass("acknowledged");
      const result = await query(text, values);
      await pass("deleted");
      return result;
    }
    if (text === "COMMIT") {
      const committed = query(text);
      committed.catch(() => {});
      await pass("committing");
      const result = await committed;
      await pass("committed");
      return result;
    }
    return query(text, values);
  };
}

const afterLast = (text: string): string =>
  text.replace("refused_at IS NULL ORDER", `refused_at IS NULL AND seq > ${lastSeq} ORDER`);

async function moveCursor(query: Query): Promise<void> {
  const text = "SELECT max(seq) AS last FROM codeq_outbox WHERE id = ANY($1::uuid[])";
  const found = await query(text, [rows.map(({ id }) => id)]);
  lastSeq = (found.rows[0] as unknown as { last: string }).last;
}

async function deleteNow(query: Query): Promise<void> {
  await query("DELETE FROM codeq_outbox WHERE id = ANY($1::uuid[])", [rows.map(({ id }) => id)]);
  await query("COMMIT");
  await query("BEGIN");
}

/** Statements that the relay sends together are sent apart, so that it can stop between them. */
async function oneByOne(query: Query, statements: readonly string[]): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const statement of statements) answers.push(await query(statement));
  return answers;
}

if (process.argv[1] === import.meta.filename) {
  const options: RelayChildOptions = JSON.parse(process.argv[2] ?? "");
  stopAt = options.stopAt;
  const plain = pg.Client.prototype.query as (...args: unknown[]) => Promise<{ rows: Row[] }>;
  Object.assign(pg.Client.prototype, {
    query(this: pg.Client, text: string, values?: unknown[]) {
      const query: Query = (statement, given) =>
        given === undefined ? plain.call(this, statement) : plain.call(this, statement, given);
      const stopped = withStops(query, options.bug);
      const [first = "", ...others] = text.split("; ");
      return others.length === 0 ? stopped(first, values) : oneByOne(stopped, [first, ...others]);
    },
  });
  const client = codeq({ url: options.url });
  startRelay({
    client,
    databaseUrl: options.databaseUrl,
    batch: 10,
    on: { ready: () => console.log("ready"), trouble: ({ message }) => console.error(message) },
  });
}
