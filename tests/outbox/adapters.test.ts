/** Each adapter with the real library and a real Postgres: commit, rollback, several rows, and once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePostgresJs } from "drizzle-orm/postgres-js";
import knexOf from "knex";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";
import { drizzle } from "../../packages/outbox/src/adapters/drizzle.ts";
import { knex } from "../../packages/outbox/src/adapters/knex.ts";
import { kysely } from "../../packages/outbox/src/adapters/kysely.ts";
import { nodePostgres } from "../../packages/outbox/src/adapters/node-postgres.ts";
import { postgresJs } from "../../packages/outbox/src/adapters/postgres-js.ts";
import { prisma } from "../../packages/outbox/src/adapters/prisma.ts";
import { createOutbox, type Outbox } from "../../packages/outbox/src/index.ts";
import { noPostgres, type PostgresDatabase } from "./postgres-server.ts";
import { openPrisma, prismaPackages } from "./prisma-client.ts";
import { sendMail } from "./send-mail.ts";
import { newDatabase } from "./setup.ts";

/** A library: how it runs a function in a transaction, and how it ends. */
interface Library<Tx> {
  readonly outbox: Outbox<Tx>;
  transaction(run: (tx: Tx) => Promise<void>): Promise<unknown>;
  end(): Promise<unknown>;
}

/** Text that quoting or a second encoding would change. */
const text = `it's "quoted", $1 and ? and :name, \\ and \0 and 🎉`;
const failure = new Error("changed my mind");

async function checkLibrary<Tx>(
  database: PostgresDatabase,
  { outbox, transaction, end }: Library<Tx>,
): Promise<void> {
  try {
    await transaction(async (tx) => {
      await outbox.enqueue(tx, sendMail, { order: 1, text } as { order: number }, { priority: 4 });
      await outbox.enqueueMany(tx, sendMail, [{ input: { order: 2 } }, { input: { order: 3 } }]);
    });
    const undone = transaction(async (tx) => {
      await outbox.enqueue(tx, sendMail, { order: 4 });
      assert.equal(await outbox.once(tx, { id: "task-1", fencingToken: 1 }), true);
      throw failure;
    });
    await assert.rejects(undone, failure);
    const rows = await database.query(
      "SELECT id::text, command, payload, options::text FROM codeq_outbox ORDER BY seq",
    );
    assert.deepEqual(
      rows.map(({ command, payload, options }) => [command, payload, options]),
      [
        ["send-mail", { order: 1, text }, '{"priority":4}'],
        ["send-mail", { order: 2 }, "{}"],
        ["send-mail", { order: 3 }, "{}"],
      ],
    );
    for (const [token, isFirst] of [
      [2, true],
      [3, false],
    ] as const) {
      await transaction(async (tx) => {
        assert.equal(await outbox.once(tx, { id: "task-1", fencingToken: token }), isFirst);
      });
    }
    await transaction(async (tx) => {
      const ctx = { id: "task-1", fencingToken: 4 };
      assert.equal(await outbox.once(tx, ctx, { step: "second" }), true);
    });
    const done = await database.query("SELECT step, fencing_token FROM codeq_once ORDER BY step");
    assert.deepEqual(done, [
      { step: "", fencing_token: "2" },
      { step: "second", fencing_token: "4" },
    ]);
  } finally {
    await end();
  }
}

const options = { skip: noPostgres };

test("node-postgres", options, async () => {
  const database = await newDatabase();
  await checkLibrary(database, {
    outbox: createOutbox({ adapter: nodePostgres }),
    transaction: (run: (tx: pg.Client) => Promise<void>) => database.transaction(run),
    end: async () => {},
  });
});

test("postgres.js", options, async () => {
  const database = await newDatabase();
  const sql = postgres(database.url);
  await checkLibrary(database, {
    outbox: createOutbox({ adapter: postgresJs }),
    transaction: (run: (tx: postgres.TransactionSql) => Promise<void>) => sql.begin(run),
    end: () => sql.end(),
  });
});

test("Drizzle over node-postgres", options, async () => {
  const database = await newDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  const db = drizzlePg(pool);
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0];
  await checkLibrary(database, {
    outbox: createOutbox({ adapter: drizzle }),
    transaction: (run: (tx: Tx) => Promise<void>) => db.transaction(run),
    end: () => pool.end(),
  });
});

test("Drizzle over postgres.js", options, async () => {
  const database = await newDatabase();
  const sql = postgres(database.url);
  const db = drizzlePostgresJs(sql);
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0];
  await checkLibrary(database, {
    outbox: createOutbox({ adapter: drizzle }),
    transaction: (run: (tx: Tx) => Promise<void>) => db.transaction(run),
    end: () => sql.end(),
  });
});

test("Kysely", options, async () => {
  const database = await newDatabase();
  const pool = new pg.Pool({ connectionString: database.url });
  const db = new Kysely<Record<never, never>>({ dialect: new PostgresDialect({ pool }) });
  await checkLibrary(database, {
    outbox: createOutbox({ adapter: kysely }),
    transaction: (run) => db.transaction().execute(run),
    end: () => db.destroy(),
  });
});

test("Knex", options, async () => {
  const database = await newDatabase();
  const db = knexOf({ client: "pg", connection: database.url });
  await checkLibrary(database, {
    outbox: createOutbox({ adapter: knex }),
    transaction: (run) => db.transaction(run),
    end: () => db.destroy(),
  });
});

const gotPrisma = noPostgres === false ? prismaPackages() : { missing: noPostgres };

test("Prisma", { skip: "missing" in gotPrisma && gotPrisma.missing }, async () => {
  const database = await newDatabase();
  const client = await openPrisma(database.url);
  await checkLibrary(database, {
    outbox: createOutbox({ adapter: prisma }),
    transaction: (run) => client.$transaction(run),
    end: () => client.$disconnect(),
  });
});

test("once waits for another transaction of the task, and follows its end", options, async () => {
  const database = await newDatabase();
  const outbox = createOutbox({ adapter: nodePostgres });
  for (const [end, id, isSecond] of [
    ["COMMIT", "a", false],
    ["ROLLBACK", "b", true],
  ] as const) {
    const first = await database.client();
    await first.query("BEGIN");
    assert.equal(await outbox.once(first, { id, fencingToken: 1 }), true);
    const second = database.transaction((tx) => outbox.once(tx, { id, fencingToken: 2 }));
    let isDecided = false;
    void second.then(() => {
      isDecided = true;
    });
    await blocked(database);
    assert.equal(isDecided, false);
    await first.query(end);
    await first.end();
    assert.equal(await second, isSecond);
  }
});

/** Resolves when a statement waits for a lock. */
async function blocked(database: PostgresDatabase): Promise<void> {
  const waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
  while ((await database.query(waiting)).length === 0);
}
