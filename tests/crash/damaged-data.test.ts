/**
 * What the server does with a data directory that is not as it was left. The end of a record that
 * was never finished is cut; everything else is refused with exit code 4 and a message that says
 * where, and the files stay as they are, for whoever repairs them.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { crc32 } from "node:zlib";
import { LevelKv, openFiles, put } from "@codeq/engine";
import type { NewTask, TaskId, TenantId } from "@codeq/queue";
import { SimRandom } from "@codeq/simulated";
import { noQuotas } from "../../packages/server/src/config/quotas.ts";
import { ShardBroker } from "../../packages/server/src/core/broker/shard-broker.ts";
import type { Enqueued } from "../../packages/server/src/core/broker/verbs.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { formatKey } from "../../packages/server/src/core/store/keys.ts";
import { Store } from "../../packages/server/src/core/store/store.ts";
import { TaskIds } from "../../packages/server/src/core/task-ids.ts";
import { ApiClient } from "../e2e/api-client.ts";
import { type Exit, endOfServer, startServer, temporaryDirectory } from "../e2e/server-process.ts";
import { ask } from "./ask-broker.ts";

const headerBytes = 64;
/** Of the development token. */
const tenantId = "dev-tenant" as TenantId;

interface Prepared {
  readonly dataDir: string;
  readonly logDir: string;
  readonly ids: readonly TaskId[];
}

/** A directory with tasks in a log of several small segments; flushed to the store only on request. */
async function setup(
  t: TestContext,
  options: { readonly isFlushed?: boolean; readonly formatVersion?: number } = {},
): Promise<Prepared> {
  const directory = temporaryDirectory();
  t.after(() => directory.dispose());
  const dataDir = directory.path;
  const logDir = join(dataDir, "log");
  const files = await openFiles(dataDir, {
    durability: "fsync",
    segmentBytes: 4096,
    monotonicMs: () => systemClock.monotonicMs(),
    newStoreId: () => 7,
    onRepair: assert.fail,
  });
  const { kv, log } = files;
  const store = await Store.open({
    ...files,
    shards: 1,
    clock: systemClock,
    observer: { grouped: () => {}, flushed: () => {}, stateChanged: () => {} },
    freeBytes: () => Promise.resolve(Number.MAX_SAFE_INTEGER),
    defer: (run) => void setImmediate(run),
    minFreeBytes: 0,
    flushBytes: 64 * 1024 * 1024,
    syncIntervalMs: undefined,
  });
  const random = new SimRandom(t.name);
  const broker = await ShardBroker.open({
    store,
    clock: systemClock,
    draw: () => random.next(),
    ids: new TaskIds((bytes) => random.bytes(bytes)),
    policy: { backoff: "fixed", baseSeconds: 1, maxSeconds: 900 },
    retention: { doneMs: 86_400_000, deadMs: 0 },
    delayedInMemoryMax: 1000,
    quotas: noQuotas,
    disableEndpointAfterMs: 0,
    prepareRemoval: () => () => Promise.resolve(),
    observe: () => {},
  });
  const ids: TaskId[] = [];
  for (let number = 0; number < 40; number += 1) ids.push(await enqueue(broker, number));
  if (options.formatVersion !== undefined) {
    const format = JSON.stringify({ version: options.formatVersion, shards: 1 });
    await store.commitRecords([put(formatKey, format)]).done;
  }
  if (options.isFlushed === true) {
    await store.flushNow();
    await kv.files?.makeDurable();
  }
  // As a killed process would leave it: the witness has not heard of the last records.
  const witness = join(dataDir, "witness");
  const witnessed = readFileSync(witness);
  await log.close();
  await kv.close();
  if (options.isFlushed !== true) writeFileSync(witness, witnessed);
  return { dataDir, logDir, ids };
}

async function enqueue(broker: ShardBroker, number: number): Promise<TaskId> {
  const payload = `{"number":${number},"padding":"${"x".repeat(300)}"}`;
  const input: NewTask = {
    tenantId,
    command: "c",
    priority: 0,
    webhook: "",
    traceParent: "",
    traceState: "",
    idempotencyKey: "",
    maxAttempts: 5,
    visibleMs: undefined,
    extras: undefined,
    payload,
    payloadBytes: payload.length,
    payloadHash: "",
    keepsFirst: false,
  };
  const { task } = await ask<Enqueued>((waiter) => broker.enqueue(input, waiter));
  return task.id;
}

interface RecordAt {
  readonly segment: string;
  readonly offset: number;
  readonly bodyBytes: number;
}

function segmentsOf(logDir: string): string[] {
  return readdirSync(logDir)
    .filter((name) => name.endsWith(".log"))
    .sort();
}

/** Where the records are, in order. */
function recordsOf(logDir: string): RecordAt[] {
  return segmentsOf(logDir).flatMap((segment) => {
    const bytes = readFileSync(join(logDir, segment));
    const records: RecordAt[] = [];
    for (let offset = 0; bytes.toString("latin1", offset, offset + 4) === "cqlg"; ) {
      const bodyBytes = bytes.readUInt32LE(offset + 12);
      records.push({ segment, offset, bodyBytes });
      offset += Math.ceil((headerBytes + bodyBytes) / headerBytes) * headerBytes;
    }
    return records;
  });
}

function change(path: string, edit: (bytes: Buffer) => void): void {
  const bytes = readFileSync(path);
  edit(bytes);
  writeFileSync(path, bytes);
}

/** Files that wait to become segments hold nothing and do not count. */
function fingerprint(logDir: string): Record<string, string> {
  return Object.fromEntries(
    segmentsOf(logDir).map((name) => {
      const bytes = readFileSync(join(logDir, name));
      return [name, createHash("sha256").update(bytes).digest("hex")];
    }),
  );
}

async function assertRefused(prepared: Prepared, message: RegExp): Promise<Exit> {
  const before = fingerprint(prepared.logDir);
  const exit = await endOfServer({ dataDir: prepared.dataDir });
  assert.equal(exit.code, 4, exit.stderr + exit.stdout);
  assert.match(exit.stderr, message);
  assert.doesNotMatch(exit.stderr, /^\s+at /m, "a message is not a stack trace");
  assert.doesNotMatch(exit.stdout, /listening/);
  assert.deepEqual(fingerprint(prepared.logDir), before, "the log was changed");
  return exit;
}

/** The tasks that a server on the directory knows, of those that there were. */
async function knownTasks(t: TestContext, { dataDir, ids }: Prepared): Promise<readonly boolean[]> {
  const server = await startServer({ dataDir });
  t.after(() => server.kill());
  const api = new ApiClient(server.port);
  const known: boolean[] = [];
  for (const id of ids) known.push((await api.task(id)) !== undefined);
  api.close();
  const exit = await server.stop();
  assert.equal(exit.code, 0, exit.stderr);
  return known;
}

test("a last record that was never finished is cut, and the server says so", async (t) => {
  const prepared = await setup(t);
  const last = recordsOf(prepared.logDir).at(-1) as RecordAt;
  change(join(prepared.logDir, last.segment), (bytes) => {
    bytes.fill(0, last.offset + headerBytes + 100, last.offset + headerBytes + last.bodyBytes);
  });
  const server = await startServer({ dataDir: prepared.dataDir });
  t.after(() => server.kill());
  await server.anyLine((line) => /"warn"/.test(line) && line.includes(last.segment));
  const exit = await server.stop();
  assert.equal(exit.code, 0);
  const known = await knownTasks(t, prepared);
  assert.deepEqual(known, [...Array(39).fill(true), false]);
});

test("a flipped bit in the middle of the log is refused with its place", async (t) => {
  const prepared = await setup(t);
  const records = recordsOf(prepared.logDir);
  const { segment, offset, bodyBytes } = records[Math.floor(records.length / 2)] as RecordAt;
  const flip = (bytes: Buffer): void => {
    const at = offset + headerBytes + Math.floor(bodyBytes / 2);
    bytes[at] = (bytes[at] as number) ^ 4;
  };
  change(join(prepared.logDir, segment), flip);
  const exit = await assertRefused(prepared, new RegExp(`${segment}, offset ${offset}\\b`));
  assert.match(exit.stderr, /damaged/);
  change(join(prepared.logDir, segment), flip);
  assert.deepEqual(await knownTasks(t, prepared), Array(40).fill(true));
});

test("every flipped bit in any header but the last is refused", async (t) => {
  const prepared = await setup(t);
  const random = new SimRandom(t.name);
  const records = recordsOf(prepared.logDir).slice(0, -1);
  for (let round = 0; round < 3; round += 1) {
    const { segment, offset } = random.pick(records);
    const at = offset + random.int(headerBytes);
    const flip = (bytes: Buffer): void => {
      bytes[at] = (bytes[at] as number) ^ (1 << random.int(8));
    };
    const intact = readFileSync(join(prepared.logDir, segment));
    change(join(prepared.logDir, segment), flip);
    await assertRefused(prepared, /\.log/);
    writeFileSync(join(prepared.logDir, segment), intact);
  }
});

test("a segment that is missing in the middle is refused", async (t) => {
  const prepared = await setup(t);
  const segments = segmentsOf(prepared.logDir);
  assert.ok(segments.length >= 5, "there is a middle");
  const missing = segments[2] as string;
  rmSync(join(prepared.logDir, missing));
  const expected = Number(missing.replace(/\..*/, ""));
  await assertRefused(prepared, new RegExp(`${segments[1]}.*expected record ${expected}\\b`));
});

test("a first segment that is missing is refused", async (t) => {
  const prepared = await setup(t);
  rmSync(join(prepared.logDir, segmentsOf(prepared.logDir)[0] as string));
  await assertRefused(prepared, /the log does not go back to the beginning/);
});

test("a log that is missing altogether is refused when the store has seen one", async (t) => {
  const prepared = await setup(t, { isFlushed: true });
  renameSync(prepared.logDir, `${prepared.logDir}.away`);
  const exit = await endOfServer({ dataDir: prepared.dataDir });
  assert.equal(exit.code, 4, exit.stderr);
  assert.match(exit.stderr, /it ends at record 0, but record 41 had been made durable/);
  rmSync(prepared.logDir, { recursive: true });
  renameSync(`${prepared.logDir}.away`, prepared.logDir);
  assert.deepEqual(await knownTasks(t, prepared), Array(40).fill(true));
});

test("a lost store is made again from a log that goes back to the beginning", async (t) => {
  const prepared = await setup(t);
  rmSync(join(prepared.dataDir, "kv"), { recursive: true });
  assert.deepEqual(await knownTasks(t, prepared), Array(40).fill(true));
});

test("a damaged store is refused", async (t) => {
  const prepared = await setup(t, { isFlushed: true });
  writeFileSync(join(prepared.dataDir, "kv", "CURRENT"), "MANIFEST-999999\n");
  await assertRefused(prepared, /key-value store/);
});

test("a record of a newer version is refused with the way out", async (t) => {
  const prepared = await setup(t);
  const records = recordsOf(prepared.logDir);
  const { segment, offset, bodyBytes } = records.at(-1) as RecordAt;
  change(join(prepared.logDir, segment), (bytes) => {
    const record = bytes.subarray(offset, offset + headerBytes + bodyBytes);
    record.writeUInt8(9, 4);
    record.writeUInt32LE(0, 56);
    record.writeUInt32LE(crc32(record), 56);
  });
  const message = new RegExp(`${segment}, offset ${offset}.*version 9.*newer`);
  await assertRefused(prepared, message);
});

for (const [isFlushed, formatVersion] of [
  [true, 99],
  [false, 99],
  [true, 2],
  [false, 2],
] as const) {
  const where = isFlushed ? "in the store" : "in the log";
  test(`data of format ${formatVersion}, known from a key ${where}, is left alone`, async (t) => {
    const prepared = await setup(t, { isFlushed, formatVersion });
    const before = await storedPosition(prepared.dataDir);
    const message = new RegExp(
      `format version ${formatVersion}, .*Start the version .* that wrote`,
    );
    await assertRefused(prepared, message);
    // Writing what this version derives from the log would be a change that nobody can take back.
    assert.equal(await storedPosition(prepared.dataDir), before, "the store was written to");
  });
}

test("another number of shards is refused with the number that there is", async (t) => {
  const prepared = await setup(t, { isFlushed: true });
  const env = { CODEQ_SHARDS: "2" };
  const exit = await endOfServer({ dataDir: prepared.dataDir, env });
  assert.notEqual(exit.code, 0);
  assert.match(exit.stderr, /shards/);
  assert.deepEqual(await knownTasks(t, prepared), Array(40).fill(true));
});

async function storedPosition(dataDir: string): Promise<string | undefined> {
  const kv = await LevelKv.open(join(dataDir, "kv"));
  const position = kv.get("codeq/meta/position")?.toString("latin1");
  await kv.close();
  return position;
}
