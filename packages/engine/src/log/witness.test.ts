import assert from "node:assert/strict";
import { test } from "node:test";
import { SimDisk } from "@codeq/simulated";
import { append } from "../../test/log-contract.ts";
import { LocalLog } from "./local-log.ts";
import type { Frame } from "./log.ts";
import { segmentName } from "./segment.ts";
import { Witness } from "./witness.ts";

const writer = 77;

function setup(): { disk: SimDisk; beside: SimDisk } {
  return { disk: new SimDisk({ random: () => 0.5 }), beside: new SimDisk({ random: () => 0.5 }) };
}

async function open(disk: SimDisk, beside: SimDisk, storeId = writer): Promise<LocalLog> {
  const witness = await Witness.open(beside);
  const place = { writer: storeId, epoch: 1, shard: 0, segmentBytes: 4096 };
  return LocalLog.open(disk, { durability: "fsync", ...place, witness, monotonicMs: () => 0 });
}

function frame(): Frame {
  return { buffer: Buffer.alloc(256), bodyBytes: 100, opCount: 1, type: 1, timeMs: 1 };
}

async function appendMany(log: LocalLog, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await append(log, frame());
}

test("a log that was emptied or cut is refused, and nothing is changed", async () => {
  const { disk, beside } = setup();
  const log = await open(disk, beside);
  await appendMany(log, 5);
  await log.close();
  const file = await disk.open(segmentName(1));
  const whole = await file.read(0, 4096);
  for (const from of [0, 128, 4 * 192]) {
    await file.write(Buffer.alloc(4096 - from), from);
    await assert.rejects(open(disk, beside), {
      code: "corrupt",
      message: /record 5 had been made/,
    });
    await file.write(whole, 0);
  }
  await disk.remove(segmentName(1));
  await assert.rejects(open(disk, beside), { code: "corrupt" });
});

test("the witness is told with a sync, on request and at the end, and never ahead of the log", async () => {
  const { disk, beside } = setup();
  const log = await open(disk, beside);
  await appendMany(log, 2);
  assert.equal((await Witness.open(beside)).found?.index, 0);
  log.noteProgress();
  await appendMany(log, 1);
  await log.sync();
  await log.close();
  assert.deepEqual((await Witness.open(beside)).found, { storeId: writer, index: 3 });
  const next = await open(disk, beside);
  assert.equal(next.lastIndex, 3);
  await next.close();
});

test("one of its two notes is enough, and none leaves the log as it is", async () => {
  const { disk, beside } = setup();
  const log = await open(disk, beside);
  await appendMany(log, 3);
  await log.close();
  const file = await beside.open("witness");
  for (const at of [0, 4096]) await file.write(Buffer.alloc(28, 1), at);
  assert.equal((await Witness.open(beside)).found, undefined);
  const next = await open(disk, beside);
  assert.equal(next.lastIndex, 3);
  await next.close();
  await file.write(Buffer.alloc(28, 1), 0);
  assert.deepEqual((await Witness.open(beside)).found, { storeId: writer, index: 3 });
});

test("the log of another store is refused", async () => {
  const [one, other] = [setup(), setup()];
  const log = await open(one.disk, one.beside);
  await appendMany(log, 3);
  await log.close();
  const foreign = await open(other.disk, other.beside, 78);
  await appendMany(foreign, 5);
  await foreign.close();
  await assert.rejects(open(other.disk, one.beside), { code: "corrupt", message: /store 78/ });
  await assert.rejects(open(one.disk, other.beside), { code: "corrupt", message: /store 78/ });
});
