import assert from "node:assert/strict";
import { test } from "node:test";
import type { BatchMember } from "../api-types.ts";
import { task } from "../client.ts";
import type { TaskUpdate } from "../producer/run-events.ts";
import { type TestServer, testServer } from "../test-server/index.ts";
import { aesGcm, type Codec } from "./codec.ts";
import { JsonText } from "./json-text.ts";

const may = new Uint8Array(32).fill(5);
const june = Buffer.alloc(32, 6).toString("base64");
const keys = { may, june };
const codec = aesGcm({ keys, current: "june" });
const secret = "4111 1111 1111 1111";

const charge = task<{ card: string }, { last: string }>("charge", { codec });
const charger = charge.handle(({ card }) => ({ last: card.slice(-4) }));

interface Stored {
  readonly $encrypted: string;
  readonly key: string;
  readonly data: string;
}

async function stored(server: TestServer, id: string): Promise<{ payload: Stored; text: string }> {
  const inspected = await server.client.admin.task(id);
  const payload: Stored = JSON.parse(inspected.task.payload ?? "");
  return { payload, text: JSON.stringify(inspected) };
}

function changed(text: string): string {
  const at = text.indexOf('"data":"') + 20;
  return text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);
}

test("handlers and producers see the input and the output, the server sees neither", async () => {
  await using server = await testServer();
  const seen: unknown[] = [];
  const middleware = [
    async (ctx: { payload: unknown; payloadText: string }, next: () => Promise<unknown>) => {
      seen.push(ctx.payload, ctx.payloadText);
      return next();
    },
  ];
  server.client.worker(charger, { middleware });
  const run = await server.client.enqueue(charge, { card: secret });
  assert.deepEqual(await run.result(), { last: "1111" });
  assert.deepEqual(seen, [{ card: secret }, JSON.stringify({ card: secret })]);
  const { payload, text } = await stored(server, run.id);
  assert.deepEqual([payload.$encrypted, payload.key], ["aes-256-gcm", "june"]);
  assert.match(text, /"result".*\$encrypted/);
  assert.doesNotMatch(text, /1111|"card|"last"/);
  const [enqueued] = await server.enqueued(charge);
  assert.deepEqual(enqueued?.input, { card: secret });
  const updates: TaskUpdate[] = [];
  for await (const update of run.events()) updates.push(update);
  const end = updates.find((update) => update.event === "result");
  assert.deepEqual(end?.result, { last: "1111" });
});

test("a text is written with the key that is current, and read with any of them", async () => {
  const before = aesGcm({ keys: { may } });
  const old = await before.encode('{"n":1}', "salt");
  assert.equal(JSON.parse(old).key, "may");
  assert.equal(JSON.parse(await codec.encode('{"n":1}', "salt")).key, "june");
  assert.equal(await codec.decode(old), '{"n":1}');
  const new_ = await codec.encode('{"n":1}', "salt");
  await assert.rejects(before.decode(new_), {
    code: "codec_failed",
    message: "the text is encrypted with the key june, and there are may",
  });
});

test("the same text with the same salt is the same object, with another salt it is another", async () => {
  const once = await codec.encode("1", "salt");
  assert.equal(await codec.encode("1", "salt"), once);
  assert.equal(await aesGcm({ keys, current: "june" }).encode("1", "salt"), once);
  const others = [codec.encode("1", "other"), codec.encode("2", "salt"), codec.encode("1", "")];
  const nonces = (await Promise.all([once, ...others])).map((text) =>
    JSON.parse(text).data.slice(0, 16),
  );
  assert.equal(new Set(nonces).size, 4);
});

test("a task with an idempotency key is enqueued once, and refused with another input", async () => {
  await using server = await testServer();
  const { client } = server;
  const options = { idempotencyKey: "order-1" };
  const first = await client.enqueue(charge, { card: secret }, options);
  assert.equal((await client.enqueue(charge, { card: secret }, options)).id, first.id);
  await assert.rejects(client.enqueue(charge, { card: "other" }, options), {
    code: "idempotency_key_reused",
  });
  const same = await client.enqueue(charge, { card: secret });
  const data = async (id: string) => (await stored(server, id)).payload.data;
  assert.notEqual(await data(first.id), await data(same.id));
});

test("keys of uniqueness and lanes come from the input that is not encrypted", async () => {
  await using server = await testServer();
  const { client } = server;
  const settings = { codec, unique: { key: ({ card }: { card: string }) => card } };
  const once = task<{ card: string }, void>("once", settings);
  const first = await client.enqueue(once, { card: "a" });
  assert.equal((await client.enqueue(once, { card: "a" })).id, first.id);
  assert.notEqual((await client.enqueue(once, { card: "b" })).id, first.id);
});

test("schedules and batches encrypt as well, and the same put changes nothing", async () => {
  await using server = await testServer();
  const { client } = server;
  client.worker(charger);
  const put = () => client.schedules.put("daily", charge, { input: { card: secret }, every: "1d" });
  assert.equal((await put()).version, (await put()).version);
  const text = JSON.stringify(await client.schedules.get("daily"));
  assert.match(text, /"\$encrypted"/);
  assert.doesNotMatch(text, /4111/);
  const batch = await client.batch({ callback: charge, input: { card: "0000 2222" } }, [
    [charge, { card: secret }],
  ]);
  assert.deepEqual(await batch.callback.result(), { last: "2222" });
  const members: BatchMember[] = [];
  for await (const member of batch.results()) members.push(member);
  assert.equal(await codec.decode(JSON.stringify(members[0]?.result)), '{"last":"1111"}');
});

test("a worker without the key fails the attempt and says which key it lacks", async () => {
  await using server = await testServer();
  const other = aesGcm({ keys: { may } });
  const old = task<{ card: string }, { last: string }>("charge", {
    codec: other,
    retry: { delay: "1m" },
  });
  const reasons: string[] = [];
  const on = { failed: (_ctx: unknown, error: unknown) => void reasons.push(String(error)) };
  const worker = server.client.worker(
    old.handle(() => assert.fail("called")),
    { on },
  );
  const run = await server.client.enqueue(charge, { card: secret });
  await server.advance("1s");
  assert.match(reasons.join(), /encrypted with the key june, and there are may/);
  await worker.close();
  server.client.worker(charger);
  await server.runUntilIdle();
  assert.deepEqual(await run.result(), { last: "1111" });
});

test("what was changed, and what was not encrypted, is refused", async () => {
  const text = await codec.encode('{"n":1}', "salt");
  await assert.rejects(codec.decode(changed(text)), { code: "codec_failed", message: /changed/ });
  const wrong = { $encrypted: "aes-256-gcm", key: "june", data: "?" };
  await assert.rejects(codec.decode(JSON.stringify(wrong)), { code: "codec_failed" });
  const short = JSON.stringify({ ...wrong, data: "AAAA" });
  await assert.rejects(codec.decode(short), { code: "codec_failed" });
  const plain = ['{"n":1}', "1", "null", '{"$encrypted":"rot13","key":"a","data":"b"}'];
  const lenient = aesGcm({ keys: { may }, acceptPlain: true });
  for (const each of plain) {
    await assert.rejects(codec.decode(each), { code: "codec_failed", message: /not encrypted/ });
    assert.equal(await lenient.decode(each), each);
  }
});

test("any text comes back as it was", async () => {
  const texts = ["", "null", '"ä € 😀"', `"${"x".repeat(1_000_000)}"`, '{"n":1.0}'];
  for (const text of texts) assert.equal(await codec.decode(await codec.encode(text, text)), text);
});

test("no output stays none, and the text of a JSON object keeps its digits", async () => {
  await using server = await testServer();
  const { client } = server;
  const quiet = task<number, void>("quiet", { codec });
  const exact = task<number, unknown>("exact", { codec });
  client.worker([
    quiet.handle(() => {}),
    exact.handle(() => new JsonText('{"n":10000000000000001}')),
  ]);
  assert.equal(await (await client.enqueue(quiet, 1)).result(), undefined);
  const run = await client.enqueue(exact, 1);
  assert.deepEqual(await run.result(), { n: 10_000_000_000_000_000 });
  const { result } = await client.admin.task(run.id);
  const opened = await codec.decode(JSON.stringify(result?.result));
  assert.equal(opened, '{"n":10000000000000001}');
});

test("texts are ready in the order in which they were given, however long encrypting takes", async () => {
  const ready: number[] = [];
  const texts = [20_000_000, 1, 2, 3].map((chars) => "x".repeat(chars));
  await Promise.all(
    texts.map(async (text) => {
      await codec.encode(text, "");
      ready.push(text.length);
    }),
  );
  assert.deepEqual(ready, [20_000_000, 1, 2, 3]);
});

test("an input that is too long once it is encrypted is refused", async () => {
  await using server = await testServer();
  const long = task<string, void>("long", { codec });
  await assert.rejects(server.client.enqueue(long, "x".repeat(3_500_000)), {
    code: "payload_too_large",
  });
});

test("options that cannot work are refused at once", () => {
  const refused: [() => Codec, RegExp][] = [
    [() => aesGcm({ keys }), /name the key that encrypts with current: one of may, june/],
    [() => aesGcm({ keys, current: "july" }), /one of may, june/],
    [() => aesGcm({ keys: {} }), /name the key/],
    [() => aesGcm({ keys: { may: undefined } }), /the key may has to have 32 bytes/],
    [() => aesGcm({ keys: { may: "short" } }), /32 bytes; a text is base64/],
    [() => aesGcm({ keys: { may: "%%%" } }), /32 bytes/],
    [() => aesGcm({ keys: { "may 1": may } }), /invalid name "may 1"/],
  ];
  for (const [make, message] of refused) {
    assert.throws(make, { code: "invalid_option", message });
  }
});
