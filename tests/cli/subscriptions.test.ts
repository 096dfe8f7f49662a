/** Subscriptions from the command line. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./setup.ts";

test("a subscription is made, listed, renewed and deleted", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const empty = await cli.run("subscriptions", "list");
  assert.equal(empty.output, "no subscriptions; codeq subscriptions create makes one\n");
  const url = "https://worker.example.com/wake";
  const made = await cli.run(
    ...["subscriptions", "create", url, "--events", "resize,mail", "--group", "g"],
    ...["--ttl", "10m", "--min-interval", "30s"],
  );
  assert.equal(made.code, 0, made.errors);
  const id = made.output.trim();
  assert.match(made.errors, /it lasts until .*codeq subscriptions renew/);
  const shown = JSON.parse((await cli.run("subscriptions", "get", id, "--json")).output);
  assert.deepEqual(
    [shown.callbackUrl, shown.eventTypes, shown.deliveryMode, shown.minIntervalSeconds],
    [url, ["resize", "mail"], "group", 30],
  );
  const list = await cli.run("subscriptions", "list");
  assert.match(list.output, new RegExp(`${id} +resize,mail +group g .*${url}`));
  const renewed = await cli.run("subscriptions", "renew", id, "--ttl", "1h");
  assert.match(renewed.output, new RegExp(`^${id} lasts until`));
  const all = await cli.run("subscriptions", "list", "--as-admin");
  assert.match(all.output, new RegExp(id));
  const gone = await cli.run("subscriptions", "delete", id, "--as-admin");
  assert.equal(gone.output, `${id} is deleted\n`);
  const again = await cli.run("subscriptions", "get", id);
  assert.notEqual(again.code, 0);
  assert.match(again.errors, /codeq subscriptions list/);
});

test("what the server refuses is said", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  const bad = await cli.run("subscriptions", "create", "ftp://x");
  assert.notEqual(bad.code, 0);
  assert.match(bad.errors, /invalid callback url/);
});
