/** Files of tasks: uploads while the lease is held, downloads, what becomes of them, and bad input. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { type Options, type Reply, type RunningServer, setup, until } from "./setup.ts";
import type { Caller } from "./tokens.ts";

interface World {
  readonly server: RunningServer;
  /** Uploads that are on the disk, by task. */
  files(): Promise<string[]>;
}

async function world(t: TestContext, options: Options = {}): Promise<World> {
  const directory = await mkdtemp(join(tmpdir(), "codeq-artifacts-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const settings = { localArtifactsDir: directory, ...options.settings };
  const server = await setup(t, { ...options, settings });
  const files = async (): Promise<string[]> => {
    const found = await readdir(join(directory, "results"), { recursive: true }).catch(() => []);
    return found.filter((path) => path.split("/").length === 3);
  };
  return { server, files };
}

interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly caller?: Caller;
  readonly query?: string;
}

function upload(
  server: RunningServer,
  id: string,
  name: string,
  body: Buffer | string,
  { headers = {}, caller = "worker-acme", query = "" }: Sent = {},
): Promise<Reply> {
  const path = `/v1/codeq/tasks/${id}/artifacts/${encodeURIComponent(name)}${query}`;
  return server.ask(path, { method: "PUT", caller, headers, body });
}

const complete = (server: RunningServer, id: string): Promise<Reply> =>
  server.post(`/tasks/${id}/result`, { status: "COMPLETED", result: {} }, "worker-acme");
const sha256 = (text: string | Buffer): string => createHash("sha256").update(text).digest("hex");
const code = (reply: Reply): unknown => [reply.status, reply.headers["codeq-error"]];

test("a file that is stored while the task is held belongs to its result", async (t) => {
  const { server, files } = await world(t);
  const id = await server.leased();
  const headers = { "content-type": "text/csv" };
  const stored = await upload(server, id, "täble 1.csv", "a,b\n", { headers });
  assert.equal(stored.status, 201, stored.text);
  const { url, ...rest } = stored.json;
  const artifact = { name: "täble 1.csv", bytes: 4, sha256: sha256("a,b\n") };
  assert.deepEqual(rest, { ...artifact, contentType: "text/csv" });
  const path = `/v1/codeq/tasks/${id}/artifacts/t%C3%A4ble%201.csv`;
  assert.match(url, new RegExp(`^http://localhost:80${path}\\?upload=[0-9a-f]{16}$`));
  assert.deepEqual(code(await server.ask(url, { caller: "producer-acme" })), [
    404,
    "artifact_not_found",
  ]);
  const submitted = await complete(server, id);
  assert.deepEqual(submitted.json.artifacts, [stored.json]);
  const got = await server.ask(url, { caller: "producer-acme" });
  assert.equal(got.text, "a,b\n");
  assert.equal(got.headers["content-type"], "text/csv");
  assert.equal(got.headers["etag"], `"${artifact.sha256}"`);
  assert.match(got.headers["content-disposition"] ?? "", /^attachment; filename\*=UTF-8''t%C3/);
  assert.equal(got.headers["x-content-type-options"], "nosniff");
  assert.equal((await server.ask(path, { caller: "worker-acme" })).text, "a,b\n");
  const forAdmins = `/v1/codeq/admin/tasks/${id.slice(-8)}/artifacts/t%C3%A4ble%201.csv`;
  const operator = { caller: "operator", headers: { range: "bytes=2-" } } as const;
  assert.equal((await server.ask(`${forAdmins}?tenant=acme`, operator)).text, "b\n");
  assert.equal((await server.ask(forAdmins, operator)).status, 404);
  assert.equal((await files()).length, 1);
  const repeated = await complete(server, id);
  assert.deepEqual(
    [repeated.json.repeated, repeated.json.bodyDiffered, repeated.json.artifacts],
    [true, undefined, [stored.json]],
  );
});

test("a part is answered with the part", async (t) => {
  const { server } = await world(t);
  const id = await server.leased();
  const { url } = (await upload(server, id, "a", "0123456789")).json;
  await complete(server, id);
  const get = (range: string): Promise<Reply> =>
    server.ask(url, { caller: "producer-acme", headers: { range } });
  for (const [range, text, part] of [
    ["bytes=2-4", "234", "bytes 2-4/10"],
    ["bytes=7-", "789", "bytes 7-9/10"],
    ["bytes=-3", "789", "bytes 7-9/10"],
    ["bytes=0-99", "0123456789", "bytes 0-9/10"],
  ] as const) {
    const reply = await get(range);
    assert.deepEqual([reply.status, reply.text], [206, text], range);
    assert.equal(reply.headers["content-range"], part);
  }
  for (const range of ["bytes=1-2,4-5", "lines=1-2", "bytes=4-2", "bytes=-", "x"]) {
    assert.deepEqual([(await get(range)).status, (await get(range)).text], [200, "0123456789"]);
  }
  for (const range of ["bytes=10-", "bytes=99-100", "bytes=-0"]) {
    assert.deepEqual(code(await get(range)), [416, "range_not_satisfiable"], range);
  }
});

test("a second file of a name replaces the first, and links and files go together", async (t) => {
  const { server, files } = await world(t);
  const id = await server.leased();
  await upload(server, id, "a", "first");
  const second = (await upload(server, id, "a", "second")).json;
  const other = (await upload(server, id, "b", "")).json;
  await until(async () => (await files()).length === 2);
  const link = { name: "l", url: "https://files.example/1" };
  const inline = { name: "b", contentBase64: "aGk=", contentType: "text/plain" };
  const body = { status: "COMPLETED", result: {}, artifacts: [link, inline] };
  const { json } = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  const names = json.artifacts.map(({ name, bytes }: { name: string; bytes?: number }) => [
    name,
    bytes,
  ]);
  // What the submit itself brings comes before what was stored under the same name.
  assert.deepEqual(names, [
    ["l", undefined],
    ["b", 2],
    ["a", 6],
  ]);
  assert.equal((await server.ask(second.url, { caller: "producer-acme" })).text, "second");
  assert.equal((await server.ask(other.url, { caller: "producer-acme" })).text, "hi");
  const links = await server.ask(`/v1/codeq/tasks/${id}/artifacts/l`, { caller: "producer-acme" });
  assert.deepEqual(code(links), [404, "artifact_not_found"]);
});

test("only whoever has the task stores files, and what it stored goes when the task goes back", async (t) => {
  const { server, files } = await world(t);
  const waiting = await server.create({ command: "other" });
  assert.deepEqual(code(await upload(server, waiting, "a", "x")), [409, "not_in_progress"]);
  const id = await server.leased();
  const stale = await upload(server, id, "a", "x", { query: "?leaseToken=7" });
  assert.deepEqual(code(stale), [403, "not_owner"]);
  const foreign = await upload(server, id, "a", "x", { caller: "worker-globex" });
  assert.deepEqual(code(foreign), [404, "task_unknown"]);
  assert.deepEqual(await files(), []);
  assert.equal((await upload(server, id, "a", "x", { query: "?leaseToken=1" })).status, 201);
  await server.post(`/tasks/${id}/nack`, { delaySeconds: 1 }, "worker-acme");
  await server.clock.advance(1000);
  await server.claim();
  const submitted = await complete(server, id);
  assert.equal(submitted.json.artifacts, undefined);
  assert.deepEqual(code(await upload(server, id, "a", "x")), [409, "not_in_progress"]);
  await server.clock.advance(6 * 3_600_000);
  await until(async () => (await files()).length === 0);
});

test("what is too long is refused, before it is read when its length is known", async (t) => {
  const { server, files } = await world(t, { settings: { artifactBytesMax: 1000 } });
  const id = await server.leased();
  const declared = { headers: { "content-length": "10000000000" } };
  const early = await upload(server, id, "a", "x", declared);
  assert.deepEqual(code(early), [413, "artifact_too_large"]);
  assert.match(early.json.error, /artifact a upload: it has more than 1000 bytes/);
  const late = await upload(server, id, "a", Buffer.alloc(1001));
  assert.deepEqual(code(late), [413, "artifact_too_large"]);
  assert.equal((await upload(server, id, "a", Buffer.alloc(1000))).status, 201);
  const contentBase64 = Buffer.alloc(1001).toString("base64");
  const body = { status: "COMPLETED", result: {}, artifacts: [{ name: "b", contentBase64 }] };
  const submitted = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.deepEqual(code(submitted), [413, "artifact_too_large"]);
  assert.equal((await server.task(id)).status, "IN_PROGRESS");
  assert.equal((await files()).length, 1);
});

test("names that mean something to a file system are refused, and nothing is written", async (t) => {
  const { server, files } = await world(t);
  const id = await server.leased();
  const before = await server.fingerprint();
  const plain = "the name must be a plain file name";
  const elsewhere = "the name means something else on some systems";
  const cases: readonly (readonly [string, string])[] = [
    ["../x", plain],
    ["a/b", plain],
    ["a\\b", plain],
    ["a\u0000", plain],
    ["CON", elsewhere],
    ["nul.txt", elsewhere],
    ["a ", elsewhere],
    ["x".repeat(300), "the name has over 255 bytes"],
    ["ä".repeat(128), "the name has over 255 bytes"],
  ];
  for (const [name, why] of cases) {
    const reply = await upload(server, id, name, "x");
    assert.equal(reply.status, 400, `${name}: ${reply.text}`);
    assert.ok(reply.json.error.endsWith(`upload: ${why}`), reply.text);
  }
  // The path means that of the artifacts themselves.
  assert.equal((await upload(server, id, "..", "x")).status, 404);
  assert.equal(await server.fingerprint(), before);
  assert.deepEqual(await files(), []);
});

test("files count in the quota of stored bytes, and are given back", async (t) => {
  const quotas = {
    default: {
      pendingTasks: Number.POSITIVE_INFINITY,
      storedBytes: 1000,
      requestsPerSecond: Number.POSITIVE_INFINITY,
      concurrentLeases: Number.POSITIVE_INFINITY,
      queues: Number.POSITIVE_INFINITY,
      lanes: Number.POSITIVE_INFINITY,
    },
    tenants: new Map(),
  };
  const { server, files } = await world(t, { settings: { quotas } });
  const id = await server.leased();
  assert.equal((await upload(server, id, "a", Buffer.alloc(900))).status, 201);
  assert.deepEqual(code(await upload(server, id, "b", Buffer.alloc(200))), [429, "quota_exceeded"]);
  assert.equal((await files()).length, 1);
  // Of one that does not say how long it is, that is known when it was stored.
  await server.app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = server.app.server.address() as AddressInfo;
  const unsaid = await fetch(`http://127.0.0.1:${port}/v1/codeq/tasks/${id}/artifacts/b`, {
    method: "PUT",
    headers: { authorization: "Bearer worker-acme" },
    body: new Blob([Buffer.alloc(200)]).stream(),
    duplex: "half",
  } as RequestInit);
  assert.deepEqual([unsaid.status, unsaid.headers.get("codeq-error")], [429, "quota_exceeded"]);
  assert.equal((await files()).length, 1);
  await server.post(`/tasks/${id}/abandon`, {}, "worker-acme");
  await server.claim();
  assert.equal((await upload(server, id, "b", Buffer.alloc(900))).status, 201);
  await complete(server, id);
  await server.ask(`/v1/codeq/admin/tasks/${id}`, { method: "DELETE", caller: "admin-acme" });
  const next = await server.leased();
  await until(async () => (await upload(server, next, "c", Buffer.alloc(900))).status === 201);
});

test("an upload that is cut off leaves nothing, over a real connection", async (t) => {
  const { server, files } = await world(t);
  const id = await server.leased();
  await server.app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = server.app.server.address() as AddressInfo;
  const path = `/v1/codeq/tasks/${id}/artifacts/big`;
  const headers = { authorization: "Bearer worker-acme", "content-length": "1000000" };
  const cut = request({ port, path, method: "PUT", headers });
  cut.on("error", () => {});
  cut.write(Buffer.alloc(100_000));
  await until(async () => (await files()).length === 1);
  cut.destroy();
  await until(async () => (await files()).length === 0);
  // Longer than anything that is held in memory, and without a length.
  const chunked = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "PUT",
    headers: { authorization: "Bearer worker-acme" },
    body: new ReadableStream({
      start(controller) {
        for (let n = 0; n < 64; n += 1) controller.enqueue(new Uint8Array(100_000).fill(n));
        controller.close();
      },
    }),
    duplex: "half",
  } as RequestInit);
  assert.equal(chunked.status, 201);
  const { bytes } = (await chunked.json()) as { bytes: number };
  assert.equal(bytes, 6_400_000);
});

test("slow uploads of one tenant keep neither others nor results with files out, and end when nothing comes", async (t) => {
  const { server, files } = await world(t, { settings: { artifactUploadsMax: 4 } });
  await server.app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = server.app.server.address() as AddressInfo;
  const slowly = async (id: string, name: string, caller: Caller): Promise<Slow> => {
    const path = `/v1/codeq/tasks/${id}/artifacts/${name}`;
    const headers = { authorization: `Bearer ${caller}`, "content-length": "1000" };
    const before = (await files()).length;
    const sent = request({ port, path, method: "PUT", headers });
    t.after(() => sent.destroy());
    const answer = once(sent, "response").then(async ([reply]) => {
      const text = Buffer.concat(await reply.toArray()).toString();
      return [reply.statusCode, text];
    });
    sent.write("x");
    await until(async () => (await files()).length > before);
    return { answer };
  };
  const [theirs, mine] = [await server.leased({}, "worker-globex"), await server.leased()];
  const slow = [
    await slowly(theirs, "a", "worker-globex"),
    await slowly(theirs, "b", "worker-globex"),
  ];
  const third = await upload(server, theirs, "c", "x", { caller: "worker-globex" });
  assert.deepEqual(code(third), [503, "overloaded"]);
  assert.equal((await upload(server, mine, "a", "x")).status, 201);
  slow.push(await slowly(mine, "b", "worker-acme"), await slowly(mine, "c", "worker-acme"));
  assert.deepEqual(code(await upload(server, mine, "d", "x")), [503, "overloaded"]);
  // What is in memory does not wait for what arrives slowly.
  const other = await server.leased();
  const artifacts = [{ name: "a", contentBase64: "aGk=" }];
  const body = { status: "COMPLETED", result: {}, artifacts };
  assert.equal((await server.post(`/tasks/${other}/result`, body, "worker-acme")).status, 200);
  await server.clock.advance(30_000);
  for (const { answer } of slow) {
    const [status, text] = await answer;
    assert.equal(status, 400);
    assert.match(String(text), /upload: no data arrived for 30 seconds/);
  }
  assert.equal((await upload(server, mine, "d", "x")).status, 201);
});

interface Slow {
  readonly answer: Promise<unknown[]>;
}

test("files of a task survive a restart before its end, and externalUrl makes them absolute", async (t) => {
  const settings = { externalUrl: "https://queue.example.com" };
  const { server } = await world(t, { settings, storage: "sim-disk" });
  const id = await server.leased();
  const { url } = (await upload(server, id, "a", "kept")).json;
  assert.ok(url.startsWith("https://queue.example.com/v1/codeq/tasks/"), url);
  server.world.crash("power");
  const next = await server.world.start();
  t.after(() => next.stop());
  await next.clock.advance(1);
  const { json } = await complete(next, id);
  assert.equal(json.artifacts[0].url, url);
  const path = new URL(url).pathname;
  assert.equal((await next.ask(path, { caller: "producer-acme" })).text, "kept");
});

test("URLs begin with the host of the request that stores the file, and keep the order of the submit", async (t) => {
  const { server } = await world(t);
  const id = await server.leased();
  const put = await upload(server, id, "p", "x", { headers: { host: "queue.internal:8080" } });
  assert.match(put.json.url, /^http:\/\/queue\.internal:8080\/v1\/codeq\/tasks\//);
  const artifacts = [
    { name: "b", contentBase64: "aGk=" },
    { name: "l", url: "https://files.example/1" },
    { name: "a", contentBase64: "aGk=" },
  ];
  const submit = { method: "POST", caller: "worker-acme" } as const;
  const body = { status: "COMPLETED", result: {}, artifacts };
  const headers = { host: "bad host/evil", "content-type": "application/json" };
  const path = `/v1/codeq/tasks/${id}/result`;
  const { json } = await server.ask(path, { ...submit, headers, body });
  const stored: readonly { name: string; url: string }[] = json.artifacts;
  assert.deepEqual(
    stored.map(({ name }) => name),
    ["b", "l", "a", "p"],
  );
  // A host that could be something else in a URL is ignored.
  assert.match(stored[0]?.url ?? "", /^\/v1\/codeq\/tasks\//);
  const again = await server.ask(path, { ...submit, headers, body });
  assert.deepEqual([again.json.repeated, again.json.bodyDiffered], [true, undefined]);
  const swapped = { ...body, artifacts: artifacts.toReversed() };
  const other = await server.ask(path, { ...submit, headers, body: swapped });
  assert.equal(other.json.bodyDiffered, true);
});

test("a result that is too large says how to send the file instead", async (t) => {
  const { server } = await world(t, { settings: { bodyBytesMax: 4096, payloadBytesMax: 4096 } });
  const id = await server.leased();
  const artifacts = [{ name: "a", contentBase64: "A".repeat(8192) }];
  const body = { status: "COMPLETED", result: {}, artifacts };
  const refused = await server.post(`/tasks/${id}/result`, body, "worker-acme");
  assert.deepEqual(code(refused), [413, "body_too_large"]);
  assert.match(refused.json.error, /4096 bytes.*upload large files with PUT .*artifacts\/:name/);
  assert.equal((await upload(server, id, "a", "A".repeat(50_000))).status, 201);
});
