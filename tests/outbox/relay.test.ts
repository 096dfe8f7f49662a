import assert from "node:assert/strict";
import { test } from "node:test";
import { codeq, task } from "@codeq/client";
import { nodePostgres } from "../../packages/outbox/src/adapters/node-postgres.ts";
import {
  createOutbox,
  metricsText,
  migrationSql,
  outboxStatus,
  type RefusedRow,
  retryRefused,
} from "../../packages/outbox/src/index.ts";
import { noPostgres, PostgresDatabase } from "./postgres-server.ts";
import { type Mail, outbox, sendMail } from "./send-mail.ts";
import { Inbox, Signal, setup } from "./setup.ts";

const options = { skip: noPostgres };

test(
  "a task exists when its transaction commits, and not when it rolls back",
  options,
  async (t) => {
    const { transaction, relay, inbox, postgres } = await setup(t);
    const delivered = new Signal<number>();
    relay({ on: { delivered: (tasks) => delivered.send(tasks) } });
    const failure = new Error("the payment was declined");
    const declined = transaction(async (tx) => {
      await outbox.enqueue(tx, sendMail, { order: 1 });
      throw failure;
    });
    await assert.rejects(declined, failure);
    await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 2 }));
    await transaction((tx) =>
      outbox.enqueueMany(tx, sendMail, [{ input: { order: 3 } }, { input: { order: 4 } }]),
    );
    await inbox.has(3);
    assert.deepEqual(inbox.inputs, [{ order: 2 }, { order: 3 }, { order: 4 }]);
    await delivered.is((counts) => counts.reduce((sum, each) => sum + each, 0) === 3);
    assert.deepEqual(await outboxStatus(postgres.url), {
      waiting: 0,
      oldestSeconds: 0,
      refused: 0,
    });
  },
);

test("input, options and key arrive as they were given", options, async (t) => {
  const { transaction, relay, client } = await setup(t);
  const note = task<string, void>("note", { priority: 3, retry: { maxAttempts: 7 } });
  const inbox = new Inbox(note);
  client.worker(inbox.handler);
  relay();
  const text = 'a "quote", a zero \0, an emoji 🎉 and a lone \ud800';
  await transaction((tx) => outbox.enqueue(tx, note, text, { tags: ["red", "blue"] }));
  await inbox.has(1);
  const [first] = inbox.got;
  assert.equal(first?.input, text);
  assert.deepEqual(first?.ctx.tags, ["red", "blue"]);
  assert.equal(first?.ctx.priority, 3);
  assert.equal(first?.ctx.maxAttempts, 7);
  const keys = await transaction((tx) =>
    outbox.enqueueMany(tx, note, [
      { input: "once", idempotencyKey: "welcome" },
      { input: "once", idempotencyKey: "welcome" },
      { input: "other" },
    ]),
  );
  await inbox.has(3);
  assert.deepEqual(keys.slice(0, 2), ["welcome", "welcome"]);
  assert.match(keys[2] ?? "", /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  assert.deepEqual(inbox.inputs.slice(1).sort(), ["once", "other"]);
  const run = await client.enqueue(note, "other", { idempotencyKey: keys[2] });
  assert.equal(run.id, inbox.got.find(({ input }) => input === "other")?.ctx.id);
});

test("rows with the same unique key become one task with the last input", options, async (t) => {
  const { transaction, relay, client, postgres } = await setup(t);
  const sync = task<{ account: string; revision: number }, void>("sync", {
    unique: { key: ({ account }) => account, on: "latest" },
  });
  for (const revision of [1, 2, 3]) {
    await transaction((tx) => outbox.enqueue(tx, sync, { account: "ada", revision }));
  }
  await transaction((tx) => outbox.enqueue(tx, sync, { account: "bob", revision: 1 }));
  const refuse = { unique: { key: "ada", on: "refuse" } } as const;
  await transaction((tx) => outbox.enqueue(tx, sync, { account: "ada", revision: 4 }, refuse));
  const refused = new Signal<RefusedRow>();
  relay({ ordered: true, on: { refused: (row) => refused.send(row) } });
  await refused.is((rows) => rows.length === 1);
  assert.equal(refused.values[0]?.code, "unique_key_held");
  assert.match(refused.values[0]?.message ?? "", /^the unique key "ada" is held by task /);
  assert.equal((await outboxStatus(postgres.url)).waiting, 0);
  const inbox = new Inbox(sync);
  client.worker(inbox.handler);
  await inbox.has(2);
  assert.deepEqual(
    inbox.inputs.map(({ account, revision }) => `${account} ${revision}`),
    ["ada 3", "bob 1"],
  );
});

test("a delay counts from the call, not from when the relay sees the row", options, async (t) => {
  const { transaction, relay, client, postgres } = await setup(t);
  const earliestMs = Date.now() + 3_600_000;
  const key = await transaction((tx) =>
    outbox.enqueue(tx, sendMail, { order: 1 }, { delay: "1h" }),
  );
  const [row] = await postgres.query("SELECT options FROM codeq_outbox");
  const { runAtMs } = (row as { options: { runAtMs: number } }).options;
  assert.ok(runAtMs >= earliestMs && runAtMs <= Date.now() + 3_600_000);
  const delivered = new Signal<number>();
  relay({ on: { delivered: (tasks) => delivered.send(tasks) } });
  await delivered.is((counts) => counts.length > 0);
  const run = await client.enqueue(sendMail, { order: 1 }, { idempotencyKey: key });
  assert.equal((await run.status()).status, "PENDING");
});

test("wrong input and wrong options are refused in the transaction", options, async (t) => {
  const { transaction } = await setup(t);
  await transaction(async (tx) => {
    await assert.rejects(outbox.enqueue(tx, sendMail, { order: 1 }, { priority: 10 }), {
      code: "invalid_option",
    });
    await assert.rejects(outbox.enqueue(tx, sendMail, { order: 1n } as never), {
      code: "invalid_input",
    });
    await assert.rejects(outbox.enqueue(tx, {} as typeof sendMail, { order: 1 }), {
      code: "invalid_option",
    });
    assert.deepEqual(await outbox.enqueueMany(tx, sendMail, []), []);
  });
});

test("a commit wakes the relay; without the trigger the relay polls", options, async (t) => {
  const { transaction, relay, inbox, postgres } = await setup(t);
  const ready = new Signal<void>();
  const sleepy = relay({ poll: "1h", on: { ready: () => ready.send() } });
  await ready.is((times) => times.length === 1);
  await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 1 }));
  await inbox.has(1);
  await sleepy.close();
  await postgres.query("DROP TRIGGER codeq_outbox_notify ON codeq_outbox");
  await postgres.query(migrationSql({ notify: false }));
  relay({ poll: 5 });
  await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 2 }));
  await inbox.has(2);
});

test(
  "a transaction that commits late is delivered although later rows are gone",
  options,
  async (t) => {
    const { transaction, relay, inbox, postgres } = await setup(t);
    relay();
    const late = await postgres.client();
    await late.query("BEGIN");
    await outbox.enqueue(late, sendMail, { order: 1 });
    for (const order of [2, 3]) {
      await transaction((tx) => outbox.enqueue(tx, sendMail, { order }));
      await inbox.has(order - 1);
    }
    await late.query("COMMIT");
    await late.end();
    await inbox.has(3);
    assert.deepEqual(inbox.inputs, [{ order: 2 }, { order: 3 }, { order: 1 }]);
  },
);

test(
  "a refused row is kept with its error, others go on, and it can be retried",
  options,
  async (t) => {
    const { transaction, relay, inbox, postgres } = await setup(t);
    const refused = new Signal<RefusedRow>();
    relay({ on: { refused: (row) => refused.send(row) } });
    await postgres.query(`INSERT INTO codeq_outbox (command, payload) VALUES ('not a name', '{}')`);
    await postgres.query(
      `INSERT INTO codeq_outbox (command, options) VALUES ('send-mail', '{"priority":"high"}')`,
    );
    await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 1 }));
    await refused.is((rows) => rows.length === 2);
    await inbox.has(1);
    const kept = await postgres.query(
      "SELECT id, command, error_code, error FROM codeq_outbox WHERE refused_at IS NOT NULL ORDER BY seq",
    );
    assert.deepEqual(
      kept.map(({ command, error_code }) => [command, error_code]),
      [
        ["not a name", "invalid_command"],
        ["send-mail", "invalid_option"],
      ],
    );
    assert.match(String(kept[1]?.["error"]), /priority = "high"/);
    // The worker may get a task before the relay has committed that its row is gone; the lock waits for that.
    await postgres.query("BEGIN; LOCK TABLE codeq_outbox; COMMIT");
    const status = await outboxStatus(postgres.url);
    assert.deepEqual(status, { waiting: 0, oldestSeconds: 0, refused: 2 });
    assert.match(metricsText(status), /^codeq_outbox_refused 2$/m);

    const second = String(kept[1]?.["id"]);
    await postgres.query("UPDATE codeq_outbox SET options = '{}', payload = '{\"order\":2}'");
    assert.equal(await retryRefused(postgres.url, [second]), 1);
    await inbox.has(2);
    assert.equal(await retryRefused(postgres.url), 1);
    await refused.is((rows) => rows.length === 3);
  },
);

test("rows that other programs insert are sent byte for byte", options, async (t) => {
  const { relay, inbox, postgres } = await setup(t);
  relay();
  const payload = '{ "order":  12345678901234567890.10 }';
  await postgres.query(
    `INSERT INTO codeq_outbox (command, payload, options)
     VALUES ('send-mail', '${payload}', '{"priority": 9, "tags": ["sql"]}')`,
  );
  await inbox.has(1);
  const [first] = inbox.got;
  assert.equal(first?.ctx.payloadText, payload);
  assert.equal(first?.ctx.priority, 9);
});

test(
  "a wrong token refuses no rows; they wait until a relay has the right one",
  options,
  async (t) => {
    const { transaction, relay, inbox, postgres, url } = await setup(t);
    await using stranger = codeq({ url, token: "somebody-else" });
    const trouble = new Signal<string>();
    const wrong = relay({ client: stranger, on: { trouble: ({ code }) => trouble.send(code) } });
    await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 1 }));
    await trouble.is((codes) => codes.length === 2);
    await wrong.close();
    const { waiting, refused, oldestSeconds } = await outboxStatus(postgres.url);
    assert.deepEqual({ waiting, refused }, { waiting: 1, refused: 0 });
    assert.ok(oldestSeconds > 0);
    relay();
    await inbox.has(1);
  },
);

test("two relays share the rows, and every task is created once", options, async (t) => {
  const { transaction, relay, inbox } = await setup(t);
  const rows = 300;
  const delivered = new Signal<number>();
  const on = { delivered: (tasks: number) => delivered.send(tasks) };
  for (let at = 0; at < 2; at += 1) relay({ batch: 10, on });
  const items = Array.from({ length: rows }, (_, order) => ({ input: { order } }));
  await transaction((tx) => outbox.enqueueMany(tx, sendMail, items));
  await delivered.is((counts) => counts.reduce((sum, each) => sum + each, 0) >= rows);
  await inbox.has(rows);
  assert.equal(new Set(inbox.inputs.map(({ order }) => order)).size, rows);
  assert.equal(inbox.got.length, rows);
});

test("payloads of one transaction are limited by their bytes", options, async (t) => {
  const { transaction, relay, client } = await setup(t);
  const big = task<string, void>("big");
  const inbox = new Inbox(big);
  client.worker(inbox.handler, { concurrency: 1 });
  const counts = new Signal<number>();
  const payload = "x".repeat(900_000);
  await transaction((tx) =>
    outbox.enqueueMany(
      tx,
      big,
      Array.from({ length: 12 }, () => ({ input: payload })),
    ),
  );
  relay({ on: { delivered: (tasks) => counts.send(tasks) } });
  await inbox.has(12);
  await counts.is((each) => each.length === 2);
  assert.deepEqual(counts.values, [10, 2]);
});

test("the ordered mode keeps the order, and other relays wait for its end", options, async (t) => {
  const { transaction, relay, inbox } = await setup(t);
  const ready = new Signal<string>();
  const first = relay({ ordered: true, on: { ready: () => ready.send("first") } });
  await ready.is((names) => names.length === 1);
  const poll = 5;
  relay({ ordered: true, poll, on: { ready: () => ready.send("ordered") } });
  const shared = relay({ poll, on: { ready: () => ready.send("shared") } });
  const orders = Array.from({ length: 50 }, (_, order) => ({ order }));
  await transaction((tx) =>
    outbox.enqueueMany(
      tx,
      sendMail,
      orders.slice(0, 40).map((input) => ({ input })),
    ),
  );
  for (const input of orders.slice(40)) {
    await transaction((tx) => outbox.enqueue(tx, sendMail, input));
  }
  await inbox.has(50);
  assert.deepEqual(inbox.inputs, orders);
  assert.deepEqual(ready.values, ["first"]);
  await shared.close();
  await first.close();
  await ready.is((names) => names.includes("ordered"));
  await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 50 }));
  await inbox.has(51);
});

test(
  "a relay says that the tables are missing, and begins when they are there",
  options,
  async (t) => {
    const { transaction, relay, inbox, postgres } = await setup(t);
    await postgres.query("DROP TABLE codeq_outbox");
    const trouble = new Signal<string>();
    relay({ on: { trouble: ({ message }) => trouble.send(message) } });
    await trouble.is((texts) => texts.length === 1);
    assert.match(trouble.values[0] ?? "", /run the SQL that codeq outbox sql prints/);
    await assert.rejects(outboxStatus(postgres.url), { code: "unavailable" });
    await postgres.query(migrationSql());
    await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 1 }));
    await inbox.has(1);
  },
);

test("the trace context of the caller travels with the row", options, async (t) => {
  const { transaction, relay, inbox } = await setup(t);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const traced = createOutbox({
    adapter: nodePostgres,
    tracing: { enqueue: (_task, send) => send({ traceparent }), handle: (_traced, run) => run() },
  });
  relay();
  const input: Mail = { order: 1 };
  await transaction((tx) => traced.enqueue(tx, sendMail, input));
  await inbox.has(1);
  const [, trace] = (inbox.got[0]?.ctx.trace?.traceparent ?? "").split("-");
  assert.equal(trace, traceparent.split("-")[1]);
});

test("a batch is from 1 to 1000 rows", options, async (t) => {
  const { relay } = await setup(t);
  assert.throws(() => relay({ batch: 0 }), { code: "invalid_option" });
  assert.throws(() => relay({ batch: 1001 }), { code: "invalid_option" });
});

test(
  "the privileges that the guide names are enough for application and relay",
  options,
  async (t) => {
    const { relay, inbox, postgres } = await setup(t);
    const { database, port } = await postgres
      .query("SELECT current_database() AS database")
      .then(([row]) => ({ database: String(row?.["database"]), port: new URL(postgres.url).port }));
    await postgres.query(`
    CREATE ROLE shop LOGIN; CREATE ROLE relay LOGIN;
    GRANT INSERT ON codeq_outbox, codeq_once TO shop; GRANT SELECT ON codeq_once TO shop;
    GRANT SELECT, UPDATE, DELETE ON codeq_outbox TO relay; GRANT SELECT, DELETE ON codeq_once TO relay`);
    const as = (role: string): string => `postgres://${role}@127.0.0.1:${port}/${database}`;
    relay({ databaseUrl: async () => as("relay"), poll: 5 });
    await new PostgresDatabase(as("shop")).transaction(async (tx) => {
      await outbox.enqueue(tx, sendMail, { order: 1 });
      assert.equal(await outbox.once(tx, { id: "task-1", fencingToken: 1 }), true);
    });
    await inbox.has(1);
  },
);

test("old entries of once are deleted", options, async (t) => {
  const { relay, postgres, transaction } = await setup(t);
  await transaction((tx) => outbox.once(tx, { id: "new", fencingToken: 1 }));
  await postgres.query(`INSERT INTO codeq_once VALUES ('old', '', 1, now() - interval '91 days')`);
  relay({ poll: 5 });
  const left = () => postgres.query("SELECT task_id FROM codeq_once ORDER BY task_id");
  while ((await left()).length > 1);
  assert.deepEqual(await left(), [{ task_id: "new" }]);
});
