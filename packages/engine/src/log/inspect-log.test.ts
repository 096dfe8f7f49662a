import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { append } from "../../test/log-contract.ts";
import { create, GroupWriter, type Op, put, remove, Slab } from "../batch-codec.ts";
import { NodeDisk, ReadOnlyDisk } from "../disk/node-disk.ts";
import { type InspectedRecord, inspectLog, readLog } from "./inspect-log.ts";
import { LocalLog } from "./local-log.ts";
import { type Frame, recordTypes } from "./log.ts";
import { segmentName } from "./segment.ts";

const identity = { writer: 1, epoch: 1, shard: 0, monotonicMs: () => 0 };

function frame(ops: readonly Op[], timeMs: number): Frame {
  const writer = new GroupWriter(new Slab());
  for (const op of ops) writer.add(op);
  const { bodyBytes, opCount } = writer;
  return { buffer: writer.finish(), bodyBytes, opCount, type: recordTypes.batches, timeMs };
}

/** A directory with the log of a server that has ended: three records to a segment. */
async function setup(t: TestContext, records: number): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "codeq-inspect-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const disk = await NodeDisk.open(directory);
  const log = await LocalLog.open(disk, { ...identity, durability: "fsync", segmentBytes: 384 });
  for (let index = 1; index <= records; index++) {
    const ops = [
      create(`k/${index}`, "x".repeat(index)),
      put("last", "y"),
      remove(`k/${index - 1}`),
    ];
    await append(log, frame(ops, 1000 + index));
  }
  await log.close();
  return directory;
}

function damage(directory: string, segment: string, offset: number): void {
  const path = join(directory, segment);
  const bytes = readFileSync(path);
  bytes[offset] = (bytes[offset] ?? 0) ^ 0xff;
  writeFileSync(path, bytes);
}

/** Everything a reader could have changed. */
function imageOf(directory: string): string[] {
  return readdirSync(directory).map((name) => {
    const path = join(directory, name);
    const hash = createHash("sha256").update(readFileSync(path)).digest("hex");
    return `${name} ${statSync(path).mtimeMs} ${hash}`;
  });
}

async function all(records: AsyncIterable<InspectedRecord>): Promise<InspectedRecord[]> {
  const found: InspectedRecord[] = [];
  for await (const record of records) found.push(record);
  return found;
}

test("a sound log is told segment by segment, and looking changes nothing", async (t) => {
  const directory = await setup(t, 5);
  const before = imageOf(directory);
  const disk = new ReadOnlyDisk(directory);
  const { segments, verdict } = await inspectLog(disk);
  assert.deepEqual(verdict, { state: "sound" });
  assert.deepEqual(
    segments.map(({ name, firstIndex, lastIndex }) => [name, firstIndex, lastIndex]),
    [
      [segmentName(1), 1, 3],
      [segmentName(4), 4, 5],
    ],
  );
  assert.equal(segments[0]?.fileBytes, 384);
  assert.equal(segments[1]?.usedBytes, 2 * 128);
  const records = await all(readLog(disk, segments, 4));
  assert.deepEqual(
    records.map(({ index, timeMs, opCount, offset }) => ({ index, timeMs, opCount, offset })),
    [
      { index: 4, timeMs: 1004, opCount: 3, offset: 0 },
      { index: 5, timeMs: 1005, opCount: 3, offset: 128 },
    ],
  );
  assert.deepEqual(records[1]?.ops, [
    { kind: "create", key: "k/5", valueBytes: 5 },
    { kind: "put", key: "last", valueBytes: 1 },
    { kind: "delete", key: "k/4", valueBytes: 0 },
  ]);
  assert.deepEqual(imageOf(directory), before);
});

test("a torn last record is told as a cut that an opening would make", async (t) => {
  const directory = await setup(t, 5);
  damage(directory, segmentName(4), 128 + 70);
  const { segments, verdict } = await inspectLog(new ReadOnlyDisk(directory));
  const cut = { segment: segmentName(4), offset: 128, index: 5, recordsDropped: 0 };
  assert.deepEqual(verdict, { state: "cut", cut });
  assert.equal(segments[1]?.lastIndex, 4);
});

test("damage before the end is told, and the whole records can still be read", async (t) => {
  const directory = await setup(t, 5);
  damage(directory, segmentName(1), 128 + 70);
  const disk = new ReadOnlyDisk(directory);
  const { segments, verdict } = await inspectLog(disk);
  assert.equal(verdict.state, "damaged");
  assert.match(verdict.state === "damaged" ? verdict.problem : "", /expected record 2/);
  const records = await all(readLog(disk, segments, 1));
  assert.deepEqual(
    records.map(({ index }) => index),
    [1, 3, 4, 5],
  );
});

test("a directory without segments is a sound log without records", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "codeq-inspect-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const disk = new ReadOnlyDisk(directory);
  assert.deepEqual(await inspectLog(disk), { segments: [], verdict: { state: "sound" } });
  await assert.rejects(inspectLog(new ReadOnlyDisk(join(directory, "none"))), { code: "ENOENT" });
});
