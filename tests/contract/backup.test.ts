/** Backups of a running server, and data directories made from them. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import test, { after, type TestContext } from "node:test";
import { crc32 } from "node:zlib";
import { positionsIn, receiveBackup } from "../../packages/server/src/core/backup/backups.ts";
import {
  restoreBackup,
  verifyBackup,
} from "../../packages/server/src/core/backup/restore-backup.ts";
import { type Reply, type RunningServer, setup, World } from "./setup.ts";

const end = Number.MAX_SAFE_INTEGER;

const folders: string[] = [];
// Not in a hook of the test: it would run before the one that stops the server on the folder.
after(() => Promise.all(folders.map((path) => rm(path, { recursive: true, force: true }))));

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "codeq-backup-"));
  folders.push(path);
  return path;
}

async function prepared(t: TestContext): Promise<{ server: RunningServer; backupDir: string }> {
  const backupDir = await folder();
  const server = await setup(t, { storage: "files", settings: { backupDir } });
  return { server, backupDir };
}

const backup = (server: RunningServer, body: unknown): Promise<Reply> =>
  server.post("/admin/backups", body, "operator");

async function opened(
  t: TestContext,
  directory: string,
  settings: { readonly backupDir?: string } = {},
): Promise<RunningServer> {
  const world = new World({ storage: "files", settings });
  world.directory = directory;
  const server = await world.start();
  t.after(() => server.stop());
  return server;
}

test("a backup of a running server is restored with everything that was acknowledged", async (t) => {
  const { server, backupDir } = await prepared(t);
  const payload = { text: "x".repeat(3000) };
  const waiting = await server.create({ command: "mail", payload, idempotencyKey: "k" });
  const dead = await server.buried({ command: "other" });
  const key = await server.post("/admin/keys", { name: "ci", role: "admin" }, "admin-acme");
  assert.equal(key.status, 201);
  const first = await backup(server, { name: "daily" });
  assert.equal(first.status, 201, first.text);
  const later = await server.create({ command: "later", delaySeconds: 1000 });
  const second = await backup(server, { name: "daily" });
  const kinds = second.json.files.map((file: { kind: string }) => file.kind);
  assert.ok(kinds.includes("log"), second.text);
  const unseen = await server.create({ command: "mail" });
  const directory = join(backupDir, "daily");
  await verifyBackup(directory);
  const dataDir = join(await folder(), "data");
  await restoreBackup({ directory, dataDir, atMs: end });
  const next = await opened(t, dataDir);
  assert.equal((await next.task(waiting)).payload, JSON.stringify(payload));
  assert.equal((await next.task(dead)).status, "FAILED");
  assert.equal((await next.task(later)).status, "PENDING");
  assert.equal((await next.get(`/tasks/${unseen}`)).status, 404);
  assert.deepEqual([(await next.stats("mail")).ready, (await next.stats("other")).dlq], [1, 1]);
  assert.equal((await next.get("/admin/keys", "admin-acme")).json.keys.length, 1);
  assert.equal(await next.create({ command: "mail", payload, idempotencyKey: "k" }), waiting);
  assert.equal((await next.claim({ commands: ["mail"] })).id, waiting);
});

test("schedules are restored, fire nothing twice, and catch up", async (t) => {
  const { server, backupDir } = await prepared(t);
  const path = "/admin/schedules/digest";
  const put = await server.ask(`/v1/codeq${path}`, {
    method: "PUT",
    caller: "admin-acme",
    body: { command: "mail", every: "1m", overlap: "allow", catchUp: "all" },
  });
  assert.equal(put.status, 201, put.text);
  await server.clock.advance(3 * 60_000);
  const before = (await server.get(path, "admin-acme")).json;
  assert.equal((await backup(server, { name: "daily" })).status, 201);
  const dataDir = join(await folder(), "data");
  await restoreBackup({ directory: join(backupDir, "daily"), dataDir, atMs: end });
  const next = await opened(t, dataDir);
  assert.deepEqual((await next.get(path, "admin-acme")).json, before);
  await next.clock.advance(5 * 60_000);
  let after = before;
  // The store has files, and the clock of the test does not wait for them.
  while (Date.parse(after.nextAt) <= next.clock.nowMs()) {
    await next.clock.advance(1);
    after = (await next.get(path, "admin-acme")).json;
  }
  const { runs } = (await next.get(`${path}/runs`, "admin-acme")).json;
  const instants = runs.map(({ at }: { at: string }) => at);
  assert.equal(new Set(instants).size, instants.length);
  assert.deepEqual([after.fired, after.live], [instants.length, instants.length]);
  assert.ok(after.fired > before.fired);
});

test("a batch is restored as it was, and its callback waits for the same members", async (t) => {
  const { server, backupDir } = await prepared(t);
  const put = { method: "PUT", caller: "producer-acme", body: { command: "report", payload: {} } };
  assert.equal((await server.ask("/v1/codeq/batches/b1", put as never)).status, 201);
  const members = [await server.create({ batchId: "b1" }), await server.create({ batchId: "b1" })];
  await server.post("/batches/b1/seal", undefined, "producer-acme");
  await server.complete((await server.claim()).id);
  const before = (await server.get("/batches/b1")).json;
  assert.deepEqual([before.phase, before.pending], ["sealed", 1]);
  assert.equal((await backup(server, { name: "daily" })).status, 201);
  const dataDir = join(await folder(), "data");
  await restoreBackup({ directory: join(backupDir, "daily"), dataDir, atMs: end });
  const next = await opened(t, dataDir);
  assert.deepEqual((await next.get("/batches/b1")).json, before);
  const results = (await next.get("/batches/b1/results")).json.members;
  assert.deepEqual(results.map(({ taskId }: { taskId: string }) => taskId).sort(), members.sort());
  await next.complete((await next.claim()).id);
  assert.equal((await next.claim({ commands: ["report"] })).id, before.callbackId);
});

test("a restore stops at a moment", async (t) => {
  const { server, backupDir } = await prepared(t);
  await backup(server, { name: "daily" });
  await server.clock.advance(1000);
  const before = await server.create({ command: "mail" });
  const atMs = server.clock.nowMs();
  await server.clock.advance(1000);
  const later = await server.create({ command: "mail" });
  await backup(server, { name: "daily" });
  const dataDir = join(await folder(), "data");
  await restoreBackup({ directory: join(backupDir, "daily"), dataDir, atMs });
  const next = await opened(t, dataDir);
  assert.equal((await next.get(`/tasks/${before}`)).status, 200);
  assert.equal((await next.get(`/tasks/${later}`)).status, 404);
  const early = {
    directory: join(backupDir, "daily"),
    dataDir: join(await folder(), "d"),
    atMs: 1,
  };
  await assert.rejects(restoreBackup(early), /the backup begins at .*choose a later moment/);
});

test("a backup that is damaged, cut off or not whole is refused, and nothing is written", async (t) => {
  const { server, backupDir } = await prepared(t);
  await server.create();
  await backup(server, { name: "daily" });
  await server.create();
  await backup(server, { name: "daily" });
  const directory = join(backupDir, "daily");
  const files = await readdir(directory, { recursive: true });
  for (const name of files.filter((each) => /\.(full|log)$/.test(each))) {
    const whole = await readFile(join(directory, name));
    const flipped = Buffer.from(whole);
    flipped[whole.length >> 1] = (flipped[whole.length >> 1] as number) ^ 1;
    for (const bad of [flipped, whole.subarray(0, -1), whole.subarray(0, whole.length >> 1)]) {
      const copy = join(await folder(), "copy");
      await cp(directory, copy, { recursive: true });
      await writeFile(join(copy, name), bad);
      await assert.rejects(verifyBackup(copy), /damaged|not a backup/);
      const dataDir = join(await folder(), "data");
      await assert.rejects(restoreBackup({ directory: copy, dataDir, atMs: end }));
      await assert.rejects(readdir(dataDir), { code: "ENOENT" });
    }
  }
  const inUse = { directory, dataDir: server.config.dataDir, atMs: end };
  await assert.rejects(restoreBackup(inUse), /is not empty; restore into a new directory/);
  await assert.rejects(verifyBackup(await folder()), /there is no backup in/);
});

/** Stores what the server sends, behind what is there. */
async function stored(server: RunningServer, to: string, isFull = false): Promise<string[]> {
  const positions = Object.entries(isFull ? {} : await positionsIn(to));
  const since = positions.map(([name, at]) => `${name}:${at.identity}:${at.index}`).join(",");
  const reply = await server.app.inject({
    method: "GET",
    url: `/v1/codeq/admin/backup?since=${since}`,
    headers: { authorization: "Bearer operator" },
  });
  assert.equal(reply.statusCode, 200, reply.body);
  const pieces = Readable.from([reply.rawPayload]);
  const { files } = await receiveBackup({ to, pieces, isFull, onBytes: () => {} });
  return files.map(({ kind }) => kind);
}

for (const form of ["file", "folder"] as const) {
  test(`a backup is sent to a ${form}, continued there, and restored to a moment`, async (t) => {
    const { server } = await prepared(t);
    const to = join(await folder(), form === "file" ? "x.backup" : "x/");
    const first = await server.create({ command: "mail", payload: { text: "x".repeat(3000) } });
    const kinds = await stored(server, to);
    assert.ok(kinds.every((kind) => kind === "full"));
    await server.clock.advance(1000);
    const second = await server.create({ command: "mail" });
    const atMs = server.clock.nowMs();
    await server.clock.advance(1000);
    const third = await server.create({ command: "mail" });
    assert.ok((await stored(server, to)).every((kind) => kind === "log"));
    assert.equal((await verifyBackup(to)).stores.length, kinds.length);
    const dataDir = join(await folder(), "data");
    await restoreBackup({ directory: to, dataDir, atMs });
    const next = await opened(t, dataDir);
    const found = [];
    for (const id of [first, second, third]) found.push((await next.get(`/tasks/${id}`)).status);
    assert.deepEqual(found, [200, 200, 404]);
    assert.equal((await next.stats("mail")).ready, 2);
    // The log of another server does not continue it.
    assert.ok((await stored(next, to)).every((kind) => kind === "full"));
    const again = join(await folder(), "data");
    await restoreBackup({ directory: to, dataDir: again, atMs: end });
  });
}

test("a file that is damaged or cut off is refused, and a cut one is mended by the next backup", async (t) => {
  const { server } = await prepared(t);
  const to = join(await folder(), "x.backup");
  await server.create();
  await stored(server, to);
  const whole = await readFile(to);
  await server.create();
  await stored(server, to);
  const both = await readFile(to);
  assert.deepEqual(both.subarray(0, whole.length), whole);
  for (const at of [10, whole.length >> 1, whole.length + 20]) {
    const flipped = Buffer.from(both);
    flipped[at] = (flipped[at] as number) ^ 1;
    await writeFile(to, flipped);
    await assert.rejects(verifyBackup(to), /damaged|not complete|not a backup/);
  }
  await writeFile(to, both.subarray(0, both.length - 3));
  await assert.rejects(verifyBackup(to), /is not complete: .* cut the file to \d+ bytes/);
  await stored(server, to);
  await verifyBackup(to);
  const cutOff = Readable.from([whole.subarray(0, -1)]);
  const cut = { to: `${to}2`, pieces: cutOff, isFull: false, onBytes: () => {} };
  await assert.rejects(receiveBackup(cut), /did not arrive whole/);
  assert.equal(existsSync(`${to}2`) || existsSync(`${to}2.unfinished`), false);
  await writeFile(to, "");
  await assert.rejects(verifyBackup(to), /there is no backup in/);
});

test("where a backup goes on from is checked", async (t) => {
  const { server } = await prepared(t);
  for (const since of ["x", "control", "control:1", "control:-1:2", "../x:1:2"]) {
    const path = `/admin/backup?since=${encodeURIComponent(since)}`;
    const reply = await server.get(path, "operator");
    assert.equal(reply.status, 400, reply.text);
    assert.match(reply.json.error, /^invalid 'since' \(<store>:<identity>:<record>/);
  }
});

test("a name that leads elsewhere is refused", async (t) => {
  const { server } = await prepared(t);
  for (const name of ["", "../x", "a/b", ".", "x".repeat(200)]) {
    const reply = await backup(server, { name });
    assert.equal(reply.status, 400, reply.text);
  }
  assert.equal((await server.post("/admin/backups", { name: "x" }, "admin-acme")).status, 403);
});

async function createMany(
  server: RunningServer,
  command: string,
  count: number,
): Promise<string[]> {
  const ids = [];
  for (let n = 0; n < count; n += 1) ids.push(await server.create({ command }));
  return ids;
}

/** How many tasks of each queue a server has that is started on a restored copy. */
async function restoredCounts(t: TestContext, directory: string): Promise<(number | undefined)[]> {
  const dataDir = join(await folder(), "data");
  await verifyBackup(directory);
  await restoreBackup({ directory, dataDir, atMs: end });
  const server = await opened(t, dataDir);
  return [(await server.stats("old")).ready, (await server.stats("new")).ready];
}

test("a backup of a restored server is not taken for a continuation of the one that it came from", async (t) => {
  const { server, backupDir } = await prepared(t);
  await createMany(server, "old", 20);
  const to = join(await folder(), "x.backup");
  await stored(server, to);
  await backup(server, { name: "daily" });
  const dataDir = join(await folder(), "data");
  await restoreBackup({ directory: to, dataDir, atMs: end });
  const next = await opened(t, dataDir, { backupDir });
  await createMany(next, "new", 60);
  assert.ok((await stored(next, to)).every((kind) => kind === "full"));
  const files = (await backup(next, { name: "daily" })).json.files as { kind: string }[];
  assert.ok(files.every(({ kind }) => kind === "full"));
  assert.deepEqual(await restoredCounts(t, to), [20, 60]);
  assert.deepEqual(await restoredCounts(t, join(backupDir, "daily")), [20, 60]);
});

test("the last full backup counts, also when its store has fewer records than the one before", async (t) => {
  const { server, backupDir } = await prepared(t);
  await createMany(server, "old", 20);
  await backup(server, { name: "daily" });
  const other = await setup(t, { storage: "files", settings: { backupDir } });
  await createMany(other, "new", 5);
  await backup(other, { name: "daily" });
  await createMany(other, "new", 1);
  const again = (await backup(other, { name: "daily" })).json.files as { kind: string }[];
  assert.ok(again.every(({ kind }) => kind === "log"));
  assert.deepEqual(await restoredCounts(t, join(backupDir, "daily")), [0, 6]);
});

test("a backup that lacks a shard is refused", async (t) => {
  const backupDir = await folder();
  const server = await setup(t, { storage: "files", settings: { backupDir, shards: 3 } });
  await backup(server, { name: "daily" });
  const directory = join(backupDir, "daily");
  await rm(join(directory, "shard-2"), { recursive: true });
  await assert.rejects(verifyBackup(directory), /has no backup of shard-2, one of the 3 shards/);
});

test("no server starts where a restore did not finish", async (t) => {
  const { server, backupDir } = await prepared(t);
  await server.create();
  await backup(server, { name: "daily" });
  const dataDir = join(await folder(), "data");
  await restoreBackup({ directory: join(backupDir, "daily"), dataDir, atMs: end });
  // As a restore leaves it that ends before its stores are complete.
  const stores = await readdir(dataDir);
  await mkdir(join(dataDir, "unfinished-stores"));
  for (const name of stores) {
    await rename(join(dataDir, name), join(dataDir, "unfinished-stores", name));
  }
  await assert.rejects(opened(t, dataDir), /a restore into .* did not finish.*codeq restore/s);
  await restoreBackup({ directory: join(backupDir, "daily"), dataDir, atMs: end });
  await opened(t, dataDir);
});

/** The backup with another head in front; the checksum is right, as that of a hostile server would be. */
function withHead(whole: Buffer, change: Readonly<Record<string, unknown>> | string): Buffer {
  const length = whole.readUInt32LE(0);
  const head = JSON.parse(whole.toString("utf8", 5, 5 + length)) as Record<string, unknown>;
  const text = typeof change === "string" ? change : JSON.stringify({ ...head, ...change });
  const frame = Buffer.alloc(9 + Buffer.byteLength(text));
  frame.writeUInt32LE(frame.length - 9, 0);
  whole.copy(frame, 4, 4, 5);
  frame.write(text, 5);
  frame.writeUInt32LE(crc32(frame.subarray(4, -4)), frame.length - 4);
  return Buffer.concat([frame, whole.subarray(9 + length)]);
}

test("a backup whose names lead out of the folder, or whose head is damaged, is refused with a sentence", async (t) => {
  const { server } = await prepared(t);
  const reply = await server.app.inject({
    method: "GET",
    url: "/v1/codeq/admin/backup",
    headers: { authorization: "Bearer operator" },
  });
  const outside = await folder();
  const to = join(outside, "inside/");
  for (const change of [
    { store: "../../escaped" },
    { store: "/tmp/escaped" },
    { store: "shard-0/../../escaped" },
    { store: "control\u0000" },
    { store: "..\\escaped" },
    { store: 7 },
    { store: "" },
    { kind: "full/../../../escaped" },
    { index: "0/../../escaped" },
    { index: -1 },
    "null",
    "[]",
    "{",
  ]) {
    const pieces = Readable.from([withHead(reply.rawPayload, change)]);
    const received = receiveBackup({ to, pieces, isFull: true, onBytes: () => {} });
    await assert.rejects(received, /is damaged|did not arrive whole/, JSON.stringify(change));
    assert.deepEqual(await readdir(outside), ["inside"]);
    assert.deepEqual(await readdir(to), []);
  }
});
