/** Bodies, numbers, names and ids that no honest client sends. None may break or confuse the server. */
import assert from "node:assert/strict";
import test from "node:test";
import { gzipSync } from "node:zlib";
import { engineOf } from "../../packages/server/test/engine-of.ts";
import { readStore } from "../crash/check-store.ts";
import { type Reply, type RunningServer, setup } from "./setup.ts";

const json = { payload: 1, command: "render" };

async function assertSound(server: RunningServer): Promise<void> {
  assert.deepEqual((await readStore(engineOf(server.core.store))).problems, []);
}

function create(server: RunningServer, body: unknown): Promise<Reply> {
  return server.post("/tasks", body, "producer-acme");
}

test("text that is not JSON is an invalid body on every route that reads one", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const texts = [
    ...["{", "}", "{]", "nul", "{'a':1}", "{a:1}", '{"a":1,}', '"', "NaN", "Infinity", "-", "01"],
    ...['{"a":\u0000}', "\ufeff{}", "{}{}", "<xml/>", '{"payload":"\n","command":"a"}', "\\u007b}"],
  ];
  const before = await server.fingerprint();
  for (const [path, caller] of [
    ["/tasks", "producer-acme"],
    ["/tasks/batch", "producer-acme"],
    ["/tasks/claim", "worker-acme"],
    ["/tasks/claim/batch", "worker-acme"],
    [`/tasks/${id}/heartbeat`, "worker-acme"],
    [`/tasks/${id}/nack`, "worker-acme"],
    [`/tasks/${id}/result`, "worker-acme"],
    ["/tasks/batch/results", "worker-acme"],
  ] as const) {
    const invalid = path.endsWith(`${id}/result`) ? "invalid request body" : "invalid body";
    for (const text of texts) {
      const reply = await server.post(path, text, caller);
      assert.ok(reply.json.error.startsWith(`${invalid}: it `), `${path} ${text} ${reply.text}`);
      assert.equal(reply.status, 400);
    }
  }
  assert.equal(await server.fingerprint(), before);
});

test("bytes that are not UTF-8 are refused on every route, so no two keys become one", async (t) => {
  const server = await setup(t);
  const id = await server.leased();
  const before = await server.fingerprint();
  const bytes = [[0xff], [0xfe], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]];
  const bodies = [
    ...[["/tasks", '{"command":"a","payload":"', '"}'] as const],
    ...[["/tasks", '{"command":"a","payload":1,"idempotencyKey":"', '"}'] as const],
    ...[["/tasks/batch", '{"tasks":[{"command":"a","payload":"', '"}]}'] as const],
    ...[[`/tasks/${id}/abandon`, '{"other":"', '"}'] as const],
    ...[[`/tasks/${id}/result`, '{"status":"COMPLETED","result":{"a":"', '"}}'] as const],
  ];
  for (const [path, start, end] of bodies) {
    for (const each of bytes) {
      const body = Buffer.concat([Buffer.from(start), Buffer.from(each), Buffer.from(end)]);
      const caller = path.includes(id) ? "worker-acme" : "producer-acme";
      const reply = await server.ask(`/v1/codeq${path}`, { method: "POST", caller, body });
      assert.equal(reply.text, '{"error":"invalid body: it is not valid UTF-8"}', path);
      assert.equal(reply.status, 400);
    }
  }
  assert.equal(await server.fingerprint(), before);
});

test("absurd numbers are clamped, defaulted or refused, never stored", async (t) => {
  const server = await setup(t);
  const numbers = ["1e308", "-1e308", "1e999", "-1", "9007199254740993", "-0", "1.5", "1e-400"];
  const fields = ["priority", "maxAttempts", "delaySeconds"];
  for (const number of numbers) {
    for (const field of fields) {
      const reply = await create(server, `{"command":"a","payload":1,"${field}":${number}}`);
      assert.ok([202, 400].includes(reply.status), `${field} ${number}: ${reply.text}`);
      if (reply.status !== 202) continue;
      const { priority = 0, maxAttempts } = reply.json;
      assert.ok(Number.isInteger(priority) && priority >= 0 && priority <= 9);
      assert.ok(Number.isInteger(maxAttempts) && maxAttempts >= 1 && maxAttempts <= 1000);
    }
    const claim = await server.post("/tasks/claim", `{"leaseSeconds":${number}}`, "worker-acme");
    assert.ok([200, 204, 400].includes(claim.status), claim.text);
    const id = await server.leased({ command: "held" });
    for (const [verb, field] of [
      ["heartbeat", "extendSeconds"],
      ["heartbeat", "leaseToken"],
      ["nack", "delaySeconds"],
    ]) {
      const reply = await server.post(
        `/tasks/${id}/${verb}`,
        `{"${field}":${number}}`,
        "worker-acme",
      );
      assert.ok([200, 400, 403, 409].includes(reply.status), `${verb} ${number}: ${reply.text}`);
    }
    const limit = await server.post("/admin/tasks/cleanup", `{"limit":${number}}`, "admin-acme");
    assert.ok([200, 400].includes(limit.status), limit.text);
  }
  await assertSound(server);
  for (const seconds of ["1e308", "-1", "1e3", "0.5", "9007199254740993"]) {
    const id = await server.leased({ command: "read" });
    await server.complete(id);
    const reply = await server.get(`/tasks/${id}/result?waitSeconds=${seconds}`);
    assert.equal(reply.status, 200);
  }
});

test("a compressed body is refused and never unpacked", async (t) => {
  const server = await setup(t);
  const before = await server.fingerprint();
  const text = '{"command":"render","payload":1}';
  const ask = (encoding: string, body: Buffer | string, caller: "producer-acme" | undefined) =>
    server.ask("/v1/codeq/tasks", {
      method: "POST",
      headers: { "content-encoding": encoding },
      body,
      ...(caller === undefined ? {} : { caller }),
    });
  for (const encoding of [
    "gzip",
    "deflate",
    "br",
    "zstd",
    "GZIP",
    "identity, gzip",
    "unheard-of",
  ]) {
    const reply = await ask(encoding, gzipSync(text), "producer-acme");
    assert.equal(reply.status, 415, encoding);
    assert.match(reply.json.error, /^compressed bodies are not accepted; send the body without/);
    assert.equal(reply.headers["accept-encoding"], "identity");
  }
  assert.equal(await server.fingerprint(), before);
  assert.equal((await ask("gzip", gzipSync(text), undefined)).status, 401);
  for (const encoding of ["identity", " Identity ", ""]) {
    assert.equal((await ask(encoding, text, "producer-acme")).status, 202, encoding);
  }
});

test("nesting as deep as the payload allows is kept and given back", async (t) => {
  const server = await setup(t);
  const depth = 400_000;
  const payload = "[".repeat(depth) + "]".repeat(depth);
  const reply = await create(server, `{"command":"render","payload":${payload}}`);
  assert.equal(reply.status, 202, reply.text.slice(0, 200));
  const { id } = reply.json;
  assert.equal((await server.claim()).payload, payload);
  const object = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
  const body = `{"status":"COMPLETED","result":${object}}`;
  const submitted = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.equal(submitted.status, 200);
  const read = await server.get(`/tasks/${id}/result`);
  assert.ok(read.text.includes(object));
});

test("of duplicate keys the last one counts, for the value and for its text", async (t) => {
  const server = await setup(t);
  const cases: [string, string][] = [
    ['{"command":"a","payload":1,"payload":{"x":2}}', '{"x":2}'],
    ['{"payload":{"payload":1},"command":"a","pay\\u006coad":"last"}', '"last"'],
    ['{"payload":"\\"payload\\":7","command":"b","command":"a"}', '"\\"payload\\":7"'],
    ['{"runAt":"","webhook":"","payload" :\t[ "]","{\\\\" ] ,"command":"a"}', '[ "]","{\\\\" ]'],
    ['{"priority":7,"payload":-1.50E+2,"command":"a"}', "-1.50E+2"],
  ];
  for (const [body, payload] of cases) {
    const reply = await create(server, body);
    assert.equal(reply.status, 202, `${body}: ${reply.text}`);
    assert.equal(reply.json.payload, payload);
    assert.equal(reply.json.command, "a");
  }
  assert.equal((await create(server, '{"command":"a","payload":1,"payload":null}')).status, 400);
  const twice = '{"tasks":[{"command":"x","payload":1}],"tasks":[{"command":"y","payload":[2]}]}';
  const { json: batch } = await server.post("/tasks/batch", twice, "producer-acme");
  assert.equal(batch.results.length, 1);
  assert.equal(batch.results[0].task.payload, "[2]");
});

test("keys that name prototypes are ordinary keys", async (t) => {
  const server = await setup(t);
  const prototype = '{"__proto__":{"command":"a","payload":1},"constructor":{"prototype":{}}}';
  assert.equal((await create(server, prototype)).status, 400);
  const payload = '{"__proto__":{"admin":true},"constructor":1,"toString":null}';
  const body = `{"command":"constructor","payload":${payload}}`;
  const reply = await create(server, body);
  assert.equal(reply.json.payload, payload);
  assert.equal((await server.stats("constructor")).ready, 1);
  assert.equal((await server.claim({ commands: ["constructor"] })).payload, payload);
  const result = `{"status":"COMPLETED","result":${payload}}`;
  const done = await server.post(`/tasks/${reply.json.id}/result`, result, "worker-acme");
  assert.ok(done.text.includes(payload));
  assert.equal(({} as { admin?: boolean }).admin, undefined);
  for (const command of ["hasOwnProperty", "valueOf", "then"]) {
    await server.create({ command });
    assert.equal((await server.claim({ commands: [command] })).command, command);
  }
});

test("lone surrogates and NULs are kept as text and refused as names", async (t) => {
  const server = await setup(t);
  const odd = '"\\ud800 \\u0000 \\udfff\\ud83d\\ude00 \\uffff"';
  const { json: task } = await create(server, `{"command":"render","payload":${odd}}`);
  assert.equal(task.payload, odd);
  await server.claim();
  const nack = `{"reason":${odd},"delaySeconds":1}`;
  assert.equal((await server.post(`/tasks/${task.id}/nack`, nack, "worker-acme")).status, 200);
  assert.equal((await server.task(task.id)).error, JSON.parse(odd));
  for (const field of ["command", "idempotencyKey", "webhook", "runAt"]) {
    const reply = await create(server, `{"command":"a","payload":1,"${field}":${odd}}`);
    assert.equal(reply.status, 400, `${field}: ${reply.text}`);
  }
  const key = await create(server, '{"command":"a","payload":1,"idempotencyKey":"a\\u0000/é~%2f"}');
  assert.equal(key.status, 202);
  const after = await server.restart();
  t.after(() => after.stop());
  assert.equal((await after.task(task.id)).error, JSON.parse(odd));
  await assertSound(after);
});

test("a command is letters, digits and a few signs, and nothing else", async (t) => {
  const server = await setup(t);
  const bad = ["é", "日本", "😀", "a b", "a\tb", "a\n", "a/b", "../a", "a\u0000", "%2e", "*", "-a"];
  for (const command of [...bad, "_a", ".a", ":a", "a'", 'a"', "<a>", "a\\", "İ", "ſ", "\u212a"]) {
    const reply = await create(server, { ...json, command });
    assert.equal(reply.text, '{"error":"invalid command"}', command);
    const claim = await server.post("/tasks/claim", { commands: [command] }, "worker-acme");
    // Claims trim the name first, and that is all they forgive: a Kelvin sign is not a k.
    const isFixed = /^[a-z]$/.test(command.trim());
    assert.equal(claim.status, isFixed ? 204 : 400, `${command}: ${claim.text}`);
  }
});

test("ids from the path and from bodies are only looked up", async (t) => {
  const server = await setup(t, { storage: "files" });
  const id = await server.leased();
  await server.core.store.flushNow();
  const wide = [...id].map((char) => String.fromCharCode(char.charCodeAt(0) + 0x100)).join("");
  const full = [...id].map((char) => String.fromCharCode(char.charCodeAt(0) + 0xfee0)).join("");
  const ids = ["..", ".", "%2e%2e", "../../meta/format", `../tasks/${id}`, `${id}\u0000`, ` ${id}`];
  const before = await server.fingerprint();
  for (const bad of [
    ...ids,
    `${id}/`,
    id.toUpperCase(),
    wide,
    full,
    "~",
    "x".repeat(256),
    "\ud800",
  ]) {
    const path = encodeURIComponent(bad.toWellFormed());
    const read = await server.get(`/tasks/${path}`);
    assert.equal(read.status, 404, `${bad}: ${read.text}`);
    for (const verb of ["heartbeat", "nack", "abandon", "result"]) {
      const body = verb === "result" ? { status: "COMPLETED", result: {} } : {};
      const reply = await server.post(`/tasks/${path}/${verb}`, body, "worker-acme");
      assert.equal(reply.status, 404, `${verb} ${bad}: ${reply.text}`);
    }
    const results = [{ taskId: bad, status: "COMPLETED", result: {} }];
    const batch = await server.post("/tasks/batch/results", { results }, "worker-acme");
    assert.equal(batch.json.results[0].error, "task not found");
    assert.equal(batch.json.results[0].taskId, bad);
  }
  assert.equal(await server.fingerprint(), before);
});

test("a thousand items in a batch, good and bad mixed, are answered one by one", async (t) => {
  const server = await setup(t);
  const tasks = Array.from({ length: 1000 }, (_, n) => ({
    command: n % 3 === 0 ? "a b" : "render",
    payload: { n },
    ...(n % 5 === 0 ? { idempotencyKey: `k${n % 50}` } : {}),
  }));
  const { json: reply } = await server.post("/tasks/batch", { tasks }, "producer-acme");
  assert.equal(reply.results.length, 1000);
  for (const [n, item] of reply.results.entries()) {
    if (n % 3 === 0) assert.equal(item.error, "invalid command");
    else if (item.error === undefined) assert.equal(item.task.payload, JSON.stringify({ n }));
    else assert.match(item.error, /^idempotency key reused: /);
  }
  const claimed = await server.post("/tasks/claim/batch", { count: 256 }, "worker-acme");
  const ids = claimed.json.tasks.map(({ id }: { id: string }) => id);
  const results = Array.from({ length: 1000 }, (_, n) => ({
    taskId: ids[n % ids.length],
    status: "COMPLETED",
    result: { n },
  }));
  const { json: ended } = await server.post("/tasks/batch/results", { results }, "worker-acme");
  for (const [n, item] of ended.results.entries()) {
    assert.deepEqual(item.result.result, { n: n % ids.length }, "the first of an id counts");
  }
  await assertSound(server);
});

test("headers of any content change nothing but the trace", async (t) => {
  const server = await setup(t);
  const odd = ["", " ", "x".repeat(600), "é", "00-x", `ff-${"0".repeat(32)}-${"0".repeat(16)}-00`];
  for (const value of odd) {
    const headers = { traceparent: value, tracestate: value, "x-role": "ADMIN", "x-tenant": value };
    const reply = await server.ask("/v1/codeq/tasks", {
      method: "POST",
      caller: "producer-acme",
      headers,
      body: json,
    });
    assert.equal(reply.status, 202, value);
    assert.equal(reply.json.tenantId, "acme");
  }
  await assertSound(server);
});
