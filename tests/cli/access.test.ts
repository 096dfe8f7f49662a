/** Tokens that are asked about, on servers with tokens of their own. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { CliWorld } from "../../packages/cli/test/cli-world.ts";
import { setup } from "./setup.ts";

test("a token that was made is accepted by a server that was told so, for what it is", async (t) => {
  using maker = new CliWorld();
  const producer = JSON.parse((await maker.run("token", "create", "--json")).output);
  const worker = JSON.parse((await maker.run("token", "create", "--worker", "--json")).output);
  const { world } = await setup(t, {
    env: {
      [producer.variable]: JSON.stringify(producer.config),
      [worker.variable]: JSON.stringify([{ ...worker.config[0], token: "a-worker-token" }]),
    },
  });
  const cli = world({
    env: { CODEQ_PRODUCER_TOKEN: producer.token, CODEQ_WORKER_TOKEN: "a-worker-token" },
  });
  const { code, output } = await cli.run("token", "verify", "--json");
  assert.equal(code, 0);
  const told = JSON.parse(output);
  assert.deepEqual(told.may, {
    "read tasks": true,
    "create tasks": true,
    administer: false,
    work: true,
  });
  const shown = await cli.run("token", "verify");
  assert.match(shown.output, /no {3}administer/);
  assert.doesNotMatch(shown.output, new RegExp(producer.token));
  const nobody = await cli.run(
    "token",
    "verify",
    "--token",
    "x",
    "--worker-token",
    "x",
    "--producer-token",
    "x",
  );
  assert.equal(nobody.code, 7);
  const queues = await cli.run("queues");
  assert.equal(queues.code, 7);
  assert.match(queues.errors, /Admin only/);
});

test("doctor of a running server is well, and knows a token that is refused", async (t) => {
  const { world, dataDir, server } = await setup(t);
  const cli = world();
  const flags = ["--data-dir", dataDir, "--port", String(server.port)];
  const off = ["--worker-stream-addr", "off", "--producer-stream-addr", "off"];
  const { code, output } = await cli.run("doctor", ...flags, ...off);
  assert.equal(code, 0, output);
  assert.match(output, new RegExp(`ok {4}in use +used by the server with pid ${server.pid}`));
  assert.match(output, new RegExp(`ok {4}port ${server.port} +in use, probably by the server`));
  assert.match(output, /ok {4}server +http.*storage open, durability fsync/);
  assert.match(output, /ok {4}token +accepted/);
  const refused = await cli.run("doctor", ...flags, ...off, "--token", "x", "--json");
  assert.equal(refused.code, 9);
  const failed = JSON.parse(refused.output).checks.filter(
    ({ verdict }: { verdict: string }) => verdict === "fail",
  );
  assert.deepEqual(
    failed.map(({ check }: { check: string }) => check),
    ["token"],
  );
});

test("keys are made, used, listed and revoked", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  assert.equal(
    (await cli.run("key", "list")).output,
    "there are no keys yet; create one with codeq key create\n",
  );
  const made = await cli.run("key", "create", "shop", "--scopes", "create", "--expires-in", "30d");
  assert.equal(made.code, 0, made.errors);
  const token = made.output.trim();
  const [, id = ""] = /^key (\S+) created/.exec(made.errors) ?? [];
  const decoded = JSON.parse((await cli.run("token", "decode", token, "--json")).output);
  assert.deepEqual([decoded.kind, decoded.keyId], ["api key", id]);
  const shop = world({ env: { CODEQ_TOKEN: token } });
  assert.equal((await shop.run("enqueue", "order")).code, 0);
  assert.equal((await shop.run("queues")).code, 7);
  const worker = await cli.run(
    ...["key", "create", "resizer", "--scopes", "claim,result", "--scopes", "codeq:nack"],
    ...["--events", "resize", "--json"],
  );
  const fields = JSON.parse(worker.output);
  assert.deepEqual(fields.scopes, ["codeq:claim", "codeq:result", "codeq:nack"]);
  assert.deepEqual(fields.eventTypes, ["resize"]);
  const table = await cli.run("key", "list");
  assert.match(table.output, /^ID +NAME +ROLE +SCOPES +COMMANDS +EXPIRES +LAST USED\n/);
  assert.match(table.output, new RegExp(`${id} +shop +none +create +\\*`));
  assert.doesNotMatch(table.output, new RegExp(token));
  const { keys } = JSON.parse((await cli.run("key", "list", "--json")).output);
  assert.deepEqual(keys.map(({ name }: { name: string }) => name).sort(), ["resizer", "shop"]);
  assert.equal((await cli.run("key", "revoke", id)).output, `${id} is revoked\n`);
  assert.equal((await shop.run("enqueue", "order")).code, 7);
  assert.equal((await cli.run("key", "revoke", id)).code, 8);
  const nothing = await cli.run("key", "create", "nothing");
  assert.equal(nothing.code, 2);
  assert.match(nothing.errors, /needs scopes or a role\n {2}next: .*--scopes create/);
});

test("a key is rotated: the new one may the same, and the old one works until it is revoked", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const made = JSON.parse(
    (await cli.run("key", "create", "shop", "--scopes", "create", "--expires-in", "30d", "--json"))
      .output,
  );
  const rotated = JSON.parse((await cli.run("key", "rotate", made.id, "--json")).output);
  assert.notEqual(rotated.token, made.token);
  assert.deepEqual([rotated.name, rotated.scopes], ["shop", ["codeq:create"]]);
  const lifetime = ({ createdAt, expiresAt }: Readonly<Record<string, string>>): number =>
    Math.round((Date.parse(expiresAt ?? "") - Date.parse(createdAt ?? "")) / 1000);
  assert.equal(lifetime(rotated), lifetime(made));
  for (const { token } of [made, rotated]) {
    assert.equal((await world({ env: { CODEQ_TOKEN: token } }).run("enqueue", "order")).code, 0);
  }
  const last = await cli.run("key", "rotate", rotated.id, "--revoke");
  assert.equal(last.code, 0, last.errors);
  assert.match(last.errors, new RegExp(`${rotated.id} is revoked`));
  const shop = world({ env: { CODEQ_TOKEN: rotated.token } });
  assert.equal((await shop.run("enqueue", "order")).code, 7);
  const unknown = await cli.run("key", "rotate", rotated.id);
  assert.equal(unknown.code, 8);
  assert.match(unknown.errors, /API key not found\n {2}next: codeq key list/);
});

test("the audit trail, workers and tenants are listed", async (t) => {
  const operator = { token: "ops", subject: "ops", raw: { tenantId: "dev", roles: ["operator"] } };
  const env = { PRODUCER_AUTH_CONFIG: JSON.stringify(operator), ALLOW_PRODUCER_AS_WORKER: "true" };
  const { world, server } = await setup(t, { env });
  const cli = world({ env: { CODEQ_TOKEN: "ops" } });
  assert.equal((await cli.run("workers")).output, "no worker holds a lease or has a stream open\n");
  assert.equal((await cli.run("tenants")).output, "no tenant has tasks\n");
  await cli.run("key", "create", "shop", "--scopes", "create");
  await cli.run("enqueue", "order");
  const headers = { authorization: "Bearer ops", "content-type": "application/json" };
  const claim = { method: "POST", headers, body: '{"commands":["order"]}' };
  assert.equal((await fetch(`${server.url}/v1/codeq/tasks/claim`, claim)).status, 200);
  const { workers } = JSON.parse((await cli.run("workers", "--json")).output);
  assert.deepEqual(
    workers.map(({ leases }: { leases: number }) => leases),
    [1],
  );
  assert.match((await cli.run("workers")).output, /^WORKER +LEASES +STREAMS .*\n\S+ +1 +0 /);
  assert.deepEqual(JSON.parse((await cli.run("tenants", "--json")).output).tenants.length, 1);
  const audit = await cli.run("audit", "--action", "create_api_key");
  assert.match(audit.output, /^TIME +ACTION .*\n\S+ +create_api_key +ok +1 .*shop: role none/);
  assert.match((await cli.run("audit", "--outcome", "failed")).output, /^no audit records match/);
  const wrong = await cli.run("audit", "--from", "monday");
  assert.equal(wrong.code, 2);
});

test("what does not exist is answered with where to look for it", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const cases = [
    [["jobs", "show", "none"], /codeq jobs list/],
    [["topics", "get", "none"], /codeq topics list/],
    [["schedules", "get", "none"], /codeq schedules list/],
    [["why", "--worker-id", "none"], /codeq workers/],
    [["get", "0".repeat(36)], /the task is in another tenant/],
  ] as const;
  for (const [argv, next] of cases) {
    const { code, errors } = await cli.run(...argv);
    assert.equal(code, 8, errors);
    assert.match(errors, next);
  }
});
