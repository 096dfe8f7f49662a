/** `codeq outbox` as users run it: a process with its output, its metrics and its exit code. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { migrationSql } from "../../packages/outbox/src/index.ts";
import { cliMain } from "../cli/setup.ts";
import { freePortRows } from "../cluster/free-ports.ts";
import { Child, root } from "../e2e/server-process.ts";
import { noPostgres } from "./postgres-server.ts";
import { outbox, sendMail } from "./send-mail.ts";
import { setup } from "./setup.ts";

const run = promisify(execFile);
const codeq = (words: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  run(process.execPath, ["--conditions=source", cliMain, "outbox", ...words], {
    cwd: root,
    env: { PATH: process.env["PATH"], ...env },
  });
const options = { skip: noPostgres };

test("outbox sql prints the migration, which can be run again", options, async (t) => {
  const { postgres } = await setup(t);
  const { stdout } = await codeq(["sql"]);
  assert.equal(stdout, migrationSql());
  await postgres.query("DROP TABLE codeq_outbox; DROP TABLE codeq_once");
  for (let times = 0; times < 2; times += 1) await postgres.query(stdout);
  const { stdout: silent } = await codeq(["sql", "--no-notify"]);
  assert.ok(!silent.includes("pg_notify"));
  assert.equal(JSON.parse((await codeq(["sql", "--json"])).stdout).sql, migrationSql());
});

test(
  "outbox relay creates tasks, reports refusals and metrics, and ends on SIGTERM",
  options,
  async (t) => {
    const { postgres, url, inbox, transaction } = await setup(t);
    const [port = 0] = await freePortRows(1, 1);
    const words = [
      "outbox",
      "relay",
      "--json",
      "--base-url",
      url,
      "--metrics-addr",
      `127.0.0.1:${port}`,
    ];
    const relay = new Child(
      spawn(process.execPath, ["--conditions=source", cliMain, ...words], {
        cwd: root,
        // In the environment, where the list of processes does not show it.
        env: { PATH: process.env["PATH"], CODEQ_DATABASE_URL: postgres.url },
        stdio: "pipe",
      }),
    );
    t.after(() => relay.kill());
    await relay.anyLine((line) => line.includes('"event":"ready"'));
    await transaction((tx) => outbox.enqueue(tx, sendMail, { order: 1 }));
    await inbox.has(1);
    await postgres.query("INSERT INTO codeq_outbox (command) VALUES ('not a name')");
    const line = await relay.anyLine((each) => each.includes('"event":"refused"'));
    assert.equal(JSON.parse(line).code, "invalid_command");

    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    assert.match(metrics, /^codeq_outbox_waiting 0$/m);
    assert.match(metrics, /^codeq_outbox_refused 1$/m);
    assert.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 404);

    const database = ["--database-url", postgres.url];
    const { stdout } = await codeq(["status", "--json", ...database]);
    assert.deepEqual(JSON.parse(stdout), { waiting: 0, oldestSeconds: 0, refused: 1 });
    await postgres.query(
      "UPDATE codeq_outbox SET command = 'send-mail', payload = '{\"order\":2}'",
    );
    assert.match((await codeq(["retry", ...database])).stdout, /^1 row waits again$/m);
    await inbox.has(2);
    relay.signal("SIGTERM");
    assert.equal((await relay.exited).code, 0);
  },
);

test("outbox says what is wrong with the address of the database", options, async () => {
  const refused = async (words: string[], pattern: RegExp): Promise<void> => {
    const { stderr, code } = await codeq(words).then(
      () => assert.fail("it was accepted"),
      (error: { stderr: string; code: number }) => error,
    );
    assert.match(stderr, pattern);
    assert.ok(code > 0);
    assert.ok(!stderr.includes("secret"));
  };
  await refused(["status"], /the address of the database is missing/);
  await refused(["status", "--database-url", "mysql://me:secret@host/x"], /begin with postgres:/);
  await refused(["retry", "--database-url", "postgres://me:secret@127.0.0.1:1/x"], /ECONNREFUSED/);
  await refused(
    ["relay", "--metrics-addr", "here", "--database-url", "postgres://h/x"],
    /host:port/,
  );
});
