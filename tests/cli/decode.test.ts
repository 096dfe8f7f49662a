/** Payloads and results that are encrypted, as the command line shows them. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { aesGcm, codeq, task } from "@codeq/client";
import { setup } from "./setup.ts";

const keys = { may: Buffer.alloc(32, 5).toString("base64"), june: new Uint8Array(32).fill(6) };
const charge = task<{ card: string; n: number }, { last: string }>("charge", {
  codec: aesGcm({ keys, current: "june" }),
});

test("get and result say that a text is encrypted, and decode shows it with the keys", async (t) => {
  const { server, world } = await setup(t);
  const cli = world();
  await using client = codeq({ url: server.url, token: "dev-token" });
  const run = await client.enqueue(charge, { card: "4111", n: 1 });
  const shown = await cli.run("get", run.id);
  const hint = `encrypted with the key june; codeq decode ${run.id} --keys <file> shows it`;
  assert.ok(shown.output.endsWith(`payload\n${hint}\n`), shown.output);
  const june = Buffer.from(keys.june).toString("base64");
  writeFileSync(join(cli.directory, "keys.json"), JSON.stringify({ may: keys.may, june }));
  const waiting = await cli.run("decode", run.id, "--keys", "keys.json");
  assert.equal(waiting.output, 'payload\n{\n  "card": "4111",\n  "n": 1\n}\n', waiting.errors);
  client.worker(charge.handle(({ card }) => ({ last: card })));
  await run.result();
  const result = await cli.run("result", run.id);
  assert.equal(result.errors, `${hint}\n`);
  assert.match(result.output, /^\{"\$encrypted":"aes-256-gcm","key":"june","data":"[\w+/=]+"\}\n$/);
  const json = await cli.run("decode", run.id, "--keys", "keys.json", "--json");
  assert.equal(json.output, '{"payload":{"card":"4111","n":1},"result":{"last":"4111"}}\n');
  const env = { CODEQ_KEYS: "keys.json" };
  const piped = world({ input: result.output, env });
  writeFileSync(join(piped.directory, "keys.json"), JSON.stringify({ june }));
  assert.equal((await piped.run("decode", "-", "--json")).output, '{"last":"4111"}\n');
  const plain = await cli.run("enqueue", "plain", '{"n":1.0}', "--json");
  const { id } = JSON.parse(plain.output);
  const same = await cli.run("decode", id, "--keys", "keys.json", "--json");
  assert.equal(same.output, '{"payload":{"n":1.0}}\n');
});

test("decode says which key is missing, and what is wrong with the file of keys", async (t) => {
  const { world } = await setup(t);
  const sealed = await aesGcm({ keys: { june: keys.june } }).encode('{"n":1}', "");
  const cli = world({ input: sealed });
  const file = (text: string) => writeFileSync(join(cli.directory, "keys.json"), text);
  const without = await cli.run("decode", "-");
  assert.equal(without.code, 2);
  assert.match(without.errors, /^error: --keys is missing\n/);
  file(JSON.stringify({ may: keys.may }));
  const other = await cli.run("decode", "-", "--keys", "keys.json");
  assert.equal(other.code, 1);
  assert.match(other.errors, /encrypted with the key june, and there are may/);
  for (const [text, why] of [
    ["{", /cannot be used: .*JSON/],
    ["null", /cannot be used/],
    ['{"june":7}', /the key june has to have 32 bytes/],
  ] as const) {
    file(text);
    const { code, errors } = await cli.run("decode", "-", "--keys", "keys.json");
    assert.equal(code, 2);
    assert.match(errors, why);
  }
  assert.match((await cli.run("decode", "-", "--keys", "none.json")).errors, /ENOENT/);
});
