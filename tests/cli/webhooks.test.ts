/** Webhooks from the command line, with a receiver on this machine. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { verifyWebhook } from "@codeq/client";
import { setup } from "./setup.ts";

interface Receiver {
  readonly url: string;
  status: number;
  readonly got: { readonly body: string; readonly headers: Record<string, unknown> }[];
  /** Resolves when so many were received. */
  received(count: number): Promise<void>;
}

async function receiver(t: TestContext, status: number): Promise<Receiver> {
  let notice = (): void => {};
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    made.got.push({ body, headers: request.headers });
    response.writeHead(made.status).end();
    response.on("close", () => notice());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const made: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    status,
    got: [],
    received: (count) =>
      new Promise((resolve) => {
        notice = () => (made.got.length >= count ? resolve() : undefined);
        notice();
      }),
  };
  return made;
}

test("a webhook is looked at, sent again, and its endpoint enabled", async (t) => {
  const hook = await receiver(t, 410);
  const env = { CODEQ_WEBHOOK_ALLOW_PRIVATE_NETWORKS: "true" };
  const { world } = await setup(t, { env });
  const cli = world();
  const created = await cli.run("enqueue", "mail", "--webhook", hook.url, "--json");
  const { id } = JSON.parse(created.output);
  await cli.run("work", "mail", "--max", "1", "--", "cat");
  await hook.received(1);
  let log = await cli.run("webhooks", "log", id.slice(-8));
  while (!log.output.includes("410")) log = await cli.run("webhooks", "log", id.slice(-8));
  assert.match(
    log.output,
    /hook: failed after 1 try: the answer was 410\nAT +STATUS +TOOK +ERROR\n/,
  );
  assert.match((await cli.run("webhooks", "failed")).output, new RegExp(`${id.slice(-8)} +mail`));
  assert.match((await cli.run("webhooks", "endpoints")).output, /hook +disabled/);
  const refused = await cli.run("webhooks", "redeliver", id);
  assert.deepEqual([refused.code, /is disabled/.test(refused.errors)], [11, true]);
  hook.status = 204;
  assert.equal((await cli.run("webhooks", "enable", hook.url)).code, 0);
  const since = ["--since", "2020-01-01T00:00:00Z"];
  const dry = await cli.run("webhooks", "redeliver", ...since, "--dry-run");
  assert.equal(dry.output, "1 webhook would be sent again\n");
  const secret = (await cli.run("webhooks", "rotate")).output.trim();
  assert.equal((await cli.run("webhooks", "redeliver", ...since)).output, "1 webhook sent again\n");
  await hook.received(2);
  const [, sent] = hook.got;
  assert.ok(sent !== undefined);
  assert.equal(verifyWebhook(sent as never, { secret }).taskId, id);
  const usage = await cli.run("webhooks", "redeliver");
  assert.deepEqual([usage.code, /give the id/.test(usage.errors)], [2, true]);
});

test("secrets are listed without their texts, and revoked", async (t) => {
  const { world } = await setup(t);
  const cli = world();
  assert.match((await cli.run("webhooks", "secrets")).output, /no secret of its own/);
  const made = JSON.parse((await cli.run("webhooks", "rotate", "--overlap", "0", "--json")).output);
  const listed = (await cli.run("webhooks", "secrets")).output;
  assert.match(listed, new RegExp(`${made.id} `));
  assert.doesNotMatch(listed, /whsec_/);
  const revoked = await cli.run("webhooks", "revoke", made.id);
  assert.equal(revoked.output, `${made.id} is revoked\n`);
  assert.equal((await cli.run("webhooks", "revoke", made.id)).code, 8);
});
