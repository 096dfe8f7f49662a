import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { SimDisk } from "../../../simulated/src/sim-disk.ts";
import { append, bodiesFrom, frameOf } from "../../test/log-contract.ts";
import type { Disk } from "../disk/disk.ts";
import { type Durability, LocalLog } from "./local-log.ts";
import { frameBytes, sealRecord } from "./record.ts";
import { inspectSegment, segmentName } from "./segment.ts";

const segmentBytes = 1024;
const identity = { writer: 1, epoch: 1, shard: 0, monotonicMs: () => 0 };
type Files = Record<string, Buffer>;

function openLog(disk: Disk, durability: Durability = "fsync"): Promise<LocalLog> {
  return LocalLog.open(disk, { ...identity, durability, segmentBytes });
}

async function diskWith(files: Files, random = (): number => 0.5): Promise<SimDisk> {
  const disk = new SimDisk({ random });
  for (const [name, bytes] of Object.entries(files)) {
    const file = await disk.open(name, { create: true });
    await file.write(bytes, 0);
    await file.sync();
    await file.close();
  }
  await disk.syncDirectory();
  return disk;
}

async function filesOf(disk: Disk): Promise<Files> {
  const files: Files = {};
  for (const name of await disk.list()) {
    const file = await disk.open(name);
    files[name] = await file.read(0, await file.size());
    await file.close();
  }
  return files;
}

function bodyOf(index: number): string {
  return `${index}:`.padEnd(40 + ((index * 29) % 90), "abcdefghij");
}

function bodies(from: number, to: number): string[] {
  return Array.from({ length: to - from + 1 }, (_, n) => bodyOf(from + n));
}

/** The files of a log with that many records, the places of its records, and no spare files. */
async function written(count: number, durability: Durability = "fsync"): Promise<Written> {
  const disk = await diskWith({});
  const log = await openLog(disk, durability);
  for (const body of bodies(1, count)) await append(log, frameOf(body));
  await log.close();
  const files = await filesOf(disk);
  for (const name of Object.keys(files)) if (name.startsWith("spare")) delete files[name];
  const places: Place[] = [];
  for (const name of Object.keys(files)) {
    for await (const entry of inspectSegment(disk, name)) {
      if (entry.ok) places.push({ name, offset: entry.offset, bytes: 64 + entry.body.length });
    }
  }
  return { files, places };
}

interface Place {
  readonly name: string;
  readonly offset: number;
  /** Header and body, without the padding. */
  readonly bytes: number;
}

interface Written {
  readonly files: Files;
  readonly places: Place[];
}

function changed(files: Files, name: string, change: (bytes: Buffer) => Buffer | undefined): Files {
  const copy = Buffer.from(files[name]!);
  return { ...files, [name]: change(copy) ?? copy };
}

/** Opens, checks how far the log goes, and that it goes on from there, twice. */
async function assertCut(files: Files, last: number, durability: Durability = "fsync") {
  const disk = await diskWith(files);
  const log = await openLog(disk, durability);
  assert.equal(log.lastIndex, last);
  const { cut } = log;
  const expected = bodies(log.firstIndex, last);
  assert.deepEqual(await bodiesFrom(log, log.firstIndex), expected);
  for (const body of ["s", "another"]) {
    await append(log, frameOf(body));
    expected.push(body);
    const again = await openLog(await diskWith(await filesOf(disk)), durability);
    assert.equal(again.cut, undefined);
    assert.deepEqual(await bodiesFrom(again, again.firstIndex), expected);
  }
  return cut;
}

async function assertCorrupt(files: Files, pattern: RegExp, durability: Durability = "fsync") {
  const disk = await diskWith(files);
  await assert.rejects(openLog(disk, durability), (error: Error & { code?: string }) => {
    assert.equal(error.code, "corrupt");
    assert.match(error.message, pattern);
    assert.match(error.message, /Nothing was changed; copy the directory/);
    return true;
  });
  assert.deepEqual(await filesOf(disk), files);
}

test("a last record that was torn at any byte is cut, whatever lay there before", async () => {
  const { files, places } = await written(3);
  const { name, offset, bytes } = places[2]!;
  const stale = Buffer.alloc(segmentBytes);
  for (let at = 0; at < segmentBytes; at += 128) {
    const frame = frameOf(`stale ${at}`);
    const numbers = { type: 1, shard: 0, opCount: 1, epoch: 1, writer: 1, timeMs: 1 };
    const header = { ...numbers, bodyBytes: frame.bodyBytes, index: 1, unsyncedBefore: 0 };
    sealRecord(frame.buffer, { ...header, chain: Buffer.alloc(8, 9) });
    stale.set(frame.buffer, at);
  }
  const behinds = {
    zeros: (length: number) => Buffer.alloc(length),
    "the end of the file": () => Buffer.alloc(0),
    noise: (length: number) => Buffer.alloc(length, 0x5a),
    "old records": (length: number) => stale.subarray(segmentBytes - length),
  };
  for (const behind of Object.values(behinds)) {
    for (let length = 0; length < bytes; length += 1) {
      const torn = changed(files, name, (segment) => {
        const end = offset + length;
        return Buffer.concat([segment.subarray(0, end), behind(segmentBytes - end)]);
      });
      await assertCut(torn, 2);
    }
  }
});

test("a flipped bit in any byte of the last record cuts it", async () => {
  const { files, places } = await written(3);
  const { name, offset, bytes } = places[2]!;
  for (let bit = 0; bit < bytes * 8; bit += 9) {
    const flipped = changed(files, name, (segment) => flip(segment, offset * 8 + bit));
    const cut = await assertCut(flipped, 2);
    const recognised = bit >= 32 && (bit < 24 * 8 || bit >= 32 * 8);
    const expected = { segment: name, offset, index: 3, recordsDropped: 0 };
    assert.deepEqual(cut, recognised ? expected : undefined);
  }
});

test("a flipped bit in any byte before the last record stops the start and changes nothing", async () => {
  const { files, places } = await written(12);
  assert.ok(Object.keys(files).length > 1, "the damage also lies in a sealed segment");
  for (const [position, { name, offset, bytes }] of places.slice(0, -1).entries()) {
    const expected = new RegExp(`${name}, offset ${offset}: expected record ${position + 1},`);
    for (let bit = 0; bit < bytes * 8; bit += 7) {
      const flipped = changed(files, name, (segment) => flip(segment, offset * 8 + bit));
      await assertCorrupt(flipped, expected);
    }
  }
});

function flip(bytes: Buffer, bit: number): undefined {
  bytes[bit >> 3]! ^= 1 << (bit & 7);
}

test("damage to bytes between the records harms nothing", async () => {
  const { files, places } = await written(12);
  for (const { name, offset, bytes } of places) {
    const padding = frameBytes(bytes - 64) - bytes;
    const dirty = changed(files, name, (segment) => {
      segment.fill(0xff, offset + bytes, offset + bytes + padding);
      return undefined;
    });
    await assertCut(dirty, 12);
  }
});

test("a record that was replaced by a whole one of another log breaks the chain", async () => {
  const { files, places } = await written(4);
  const { name, offset, bytes } = places[1]!;
  for (const last of [4, 2]) {
    const forged = changed(files, name, (segment) => {
      const frame = frameOf(segment.subarray(offset + 64, offset + bytes));
      const numbers = { type: 1, shard: 0, opCount: 1, epoch: 1, writer: 1, timeMs: 1 };
      const header = { ...numbers, bodyBytes: frame.bodyBytes, index: 2, unsyncedBefore: 0 };
      sealRecord(frame.buffer, { ...header, chain: Buffer.alloc(8, 9) });
      segment.set(frame.buffer, offset);
      if (last === 2) segment.fill(0, offset + frame.buffer.length);
      return undefined;
    });
    await assertCorrupt(forged, /expected record 2, but record 2 .* does not continue/);
  }
});

test("a first record that claims a predecessor is not the start of a log", async () => {
  const frame = frameOf("first");
  const numbers = { type: 1, shard: 0, opCount: 1, epoch: 1, writer: 1, timeMs: 1 };
  const header = { ...numbers, bodyBytes: frame.bodyBytes, index: 1, unsyncedBefore: 0 };
  sealRecord(frame.buffer, { ...header, chain: Buffer.alloc(8, 1) });
  const segment = Buffer.concat([frame.buffer, Buffer.alloc(segmentBytes - frame.buffer.length)]);
  await assertCorrupt({ [segmentName(1)]: segment }, /expected record 1, but record 1/);
});

test("missing first segments were trimmed; a missing one in between is a gap", async () => {
  const { files } = await written(40);
  const names = Object.keys(files);
  assert.ok(names.length >= 4);
  for (const missing of names.slice(0, -1)) {
    const { [missing]: _, ...rest } = files;
    if (missing !== names[0]) await assertCorrupt(rest, /expected record \d+, but record/);
  }
  const later = Object.fromEntries(Object.entries(files).slice(2));
  await assertCut(later, 40);
  const log = await openLog(await diskWith(later));
  assert.equal(segmentName(log.firstIndex), names[2]);
});

test("a segment that repeats records of another stops the start", async () => {
  const { files } = await written(12);
  const [, second] = Object.keys(files);
  const twice = { ...files, [segmentName(2)]: files[second!]! };
  await assertCorrupt(twice, new RegExp(`${segmentName(2)}, .*expected record 2`));
});

test("a log whose only segment lost all its records does not start over", async () => {
  const { files } = await written(12);
  const name = Object.keys(files).at(-1)!;
  await assertCorrupt({ [name]: Buffer.alloc(segmentBytes) }, /holds no record/);
});

test("a segment that was opened but never written to is the place of the next record", async () => {
  const { files } = await written(12);
  await assertCut({ ...files, [segmentName(13)]: Buffer.alloc(segmentBytes) }, 12);
  const [oldest] = Object.values(files);
  await assertCut({ ...files, [segmentName(13)]: oldest! }, 12);
});

test("power that fails while segments without records are removed leaves a log that opens", async () => {
  const empty = Buffer.alloc(segmentBytes);
  // Of changes to the directory that were not synced, the first is lost and the others are kept.
  const kept = [0.9];
  const files = { [segmentName(1)]: empty, [segmentName(3)]: empty };
  const disk = await diskWith(files, () => kept.shift() ?? 0);
  disk.failNext("syncDirectory", "EIO");
  await assert.rejects(openLog(disk), /EIO/);
  const log = await openLog(disk.crash("power"));
  assert.equal(log.lastIndex, 0);
  await log.close();
});

test("spare files of an empty log and half-made ones are removed", async () => {
  const { files } = await written(12);
  const [old] = Object.values(files);
  const empty = await diskWith({ "spare-3": old! });
  await (await openLog(empty)).close();
  assert.deepEqual(await empty.list(), []);
  const half = await diskWith({ ...files, "spare-3": Buffer.alloc(10), "spare-4": old! });
  await (await openLog(half)).close();
  assert.deepEqual(await half.list(), [...Object.keys(files), "spare-4"]);
});

test("files of other names are left alone", async () => {
  const { files } = await written(3);
  const disk = await diskWith({
    ...files,
    "notes.txt": Buffer.from("mine"),
    "5.log": Buffer.of(1),
  });
  const log = await openLog(disk);
  assert.equal(log.lastIndex, 3);
  await log.close();
  assert.deepEqual(await disk.list(), ["00000000000000000001.log", "5.log", "notes.txt"]);
});

test("a record of a newer version stops the start, also as the last one", async () => {
  const { files, places } = await written(3);
  for (const { name, offset, bytes } of places) {
    const newer = changed(files, name, (segment) => {
      const frame = Buffer.from(segment.subarray(offset, offset + frameBytes(bytes - 64)));
      resealAs(frame, 2);
      segment.set(frame, offset);
      return undefined;
    });
    const disk = await diskWith(newer);
    await assert.rejects(openLog(disk), { code: "format", message: /format version 2/ });
    assert.deepEqual(await filesOf(disk), newer);
  }
});

/** A record of another version that is whole, as far as its checksum tells. */
function resealAs(frame: Buffer, version: number): void {
  frame.writeUInt8(version, 4);
  frame.writeUInt32LE(0, 56);
  const end = 64 + frame.readUInt32LE(12);
  frame.writeUInt32LE(crc32(frame.subarray(0, end)), 56);
}

test("records that no sync covered may be missing, and what follows them goes too", async () => {
  const { files, places } = await written(12, "os");
  assert.ok(Object.keys(files).length > 1);
  for (const [position, { name, offset, bytes }] of places.entries()) {
    const torn = changed(files, name, (segment) => {
      segment.fill(0, offset + bytes - 20, offset + bytes);
      return undefined;
    });
    const cut = await assertCut(torn, position, "os");
    assert.equal(cut?.index, position + 1);
    assert.equal(cut?.recordsDropped, 12 - position - 1);
  }
});

test("records that a sync covered may not be missing once others were written after it", async () => {
  const disk = await diskWith({});
  const log = await openLog(disk, "interval");
  for (const body of bodies(1, 4)) await append(log, frameOf(body));
  await log.sync();
  for (const body of bodies(5, 7)) await append(log, frameOf(body));
  const files = await filesOf(disk);
  const name = segmentName(1);
  const offsets: number[] = [];
  for await (const entry of inspectSegment(disk, name)) if (entry.ok) offsets.push(entry.offset);
  for (const [position, offset] of offsets.entries()) {
    const torn = changed(files, name, (segment) => flip(segment, offset * 8 + 700));
    const index = position + 1;
    if (index <= 4) await assertCorrupt(torn, new RegExp(`expected record ${index},`), "interval");
    else await assertCut(torn, position, "interval");
  }
});

test("with overlapping appends, damage is cut only where the last record overlapped with it", async () => {
  const disk = await diskWith({});
  const log = await openLog(disk);
  await append(log, frameOf(bodyOf(1)));
  for (const index of [2, 4, 6]) {
    const pair = [append(log, frameOf("a".repeat(30))), append(log, frameOf("b".repeat(30)))];
    assert.deepEqual(await Promise.all(pair), [index, index + 1]);
  }
  const files = await filesOf(disk);
  const name = segmentName(1);
  const seen: { readonly offset: number; readonly unsyncedBefore: number }[] = [];
  for await (const entry of inspectSegment(disk, name)) {
    if (!entry.ok) continue;
    seen.push({ offset: entry.offset, unsyncedBefore: entry.header.unsyncedBefore });
  }
  assert.deepEqual(
    seen.map(({ unsyncedBefore }) => unsyncedBefore),
    [0, 0, 1, 0, 1, 0, 1],
  );
  for (const [position, { offset }] of seen.entries()) {
    const torn = changed(files, name, (segment) => flip(segment, offset * 8 + 700));
    if (position < 5) {
      await assertCorrupt(torn, new RegExp(`expected record ${position + 1},`));
      continue;
    }
    const again = await openLog(await diskWith(torn));
    assert.equal(again.lastIndex, position);
    assert.deepEqual(again.cut, {
      ...{ segment: name, offset, index: position + 1, recordsDropped: 6 - position },
    });
    await again.close();
  }
  await log.close();
});

test("inspecting shows records, damage and what lies behind it, and changes nothing", async () => {
  const { files, places } = await written(4);
  const { name, offset } = places[1]!;
  const damaged = changed(files, name, (segment) => flip(segment, offset * 8 + 600));
  const disk = await diskWith(damaged);
  const seen: string[] = [];
  for await (const entry of inspectSegment(disk, name)) {
    seen.push(entry.ok ? `${entry.header.index}` : entry.reason);
  }
  assert.deepEqual(seen, ["1", "checksum", "3", "4", "empty"]);
  assert.deepEqual(await filesOf(disk), damaged);
});
