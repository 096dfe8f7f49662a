import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { SimDisk, type SimDiskOperation } from "../../../simulated/src/sim-disk.ts";
import { append, bodiesFrom, frameOf, logContract } from "../../test/log-contract.ts";
import type { Disk } from "../disk/disk.ts";
import { NodeDisk } from "../disk/node-disk.ts";
import { type Durability, LocalLog, type LocalLogOptions } from "./local-log.ts";

const segmentBytes = 2048;
const identity = { writer: 11, epoch: 2 ** 40 + 3, shard: 5, monotonicMs: () => 0 };
const roots: string[] = [];

after(async () => {
  for (const root of roots) await rm(root, { recursive: true });
});

function openLog(disk: Disk, options: Partial<LocalLogOptions> = {}): Promise<LocalLog> {
  return LocalLog.open(disk, { ...identity, durability: "fsync", segmentBytes, ...options });
}

async function nodeDisk(): Promise<NodeDisk> {
  const root = await mkdtemp(join(tmpdir(), "codeq-log-"));
  roots.push(root);
  return NodeDisk.open(root);
}

function simDisk(
  latency?: (operation: SimDiskOperation) => Promise<void>,
  seed: number = 1,
): SimDisk {
  let state = Math.imul(seed, 0x2545f491);
  const random = (): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x80000000;
  };
  return new SimDisk({ random, ...(latency && { latency }) });
}

for (const durability of ["fsync", "interval", "os"] as const satisfies Durability[]) {
  const disks = { NodeDisk: nodeDisk, SimDisk: async () => simDisk() };
  for (const [name, makeDisk] of Object.entries(disks)) {
    logContract(`LocalLog on ${name} with ${durability}`, async () => {
      const disk = await makeDisk();
      const log = await openLog(disk, { durability });
      const reopen = async (): Promise<LocalLog> => {
        await log.close();
        return openLog(disk, { durability });
      };
      return { log, reopen };
    });
  }
}

/** Appends until `count` records are there; each takes 256 bytes, so eight fill a segment. */
async function fill(log: LocalLog, count: number): Promise<string[]> {
  const bodies: string[] = [];
  while (log.lastIndex < count) {
    const body = `${log.lastIndex + 1}`.padEnd(192, ".");
    await append(log, frameOf(body));
    bodies.push(body);
  }
  return bodies;
}

async function sizesOf(disk: Disk): Promise<Record<string, number>> {
  const sizes: Record<string, number> = {};
  for (const name of await disk.list()) {
    const file = await disk.open(name);
    sizes[name] = await file.size();
    await file.close();
  }
  return sizes;
}

test("a full segment is followed by one named after its first index, prepared in full", async () => {
  const disk = simDisk();
  const log = await openLog(disk);
  const bodies = await fill(log, 20);
  assert.deepEqual(
    Object.entries(await sizesOf(disk)).filter(([name]) => name.endsWith(".log")),
    [1, 9, 17].map((index) => [`${String(index).padStart(20, "0")}.log`, segmentBytes]),
  );
  assert.equal(log.bytes, 3 * segmentBytes);
  assert.deepEqual(await bodiesFrom(log, 1), bodies);
  await log.close();
});

test("the next segment is prepared once the last one is half full", async () => {
  const disk = simDisk();
  const log = await openLog(disk);
  await fill(log, 3);
  assert.deepEqual(Object.keys(await sizesOf(disk)).length, 1);
  const synced = Promise.withResolvers<void>();
  disk.slow("syncDirectory", synced.promise);
  await fill(log, 8);
  synced.resolve();
  disk.capacityBytes = 2 * segmentBytes;
  await fill(log, 9);
  assert.deepEqual(Object.values(await sizesOf(disk)), [segmentBytes, segmentBytes]);
  await log.close();
});

test("a frame larger than a segment gets a segment of its own size", async () => {
  const disk = simDisk();
  const log = await openLog(disk);
  const large = "L".repeat(5000);
  await append(log, frameOf("small"));
  await append(log, frameOf(large));
  await append(log, frameOf("after"));
  await log.close();
  assert.equal((await sizesOf(disk))["00000000000000000002.log"], 5120);
  const again = await openLog(disk);
  assert.deepEqual(await bodiesFrom(again, 1), ["small", large, "after"]);
  await again.trim(3);
  assert.equal(again.firstIndex, 3);
  await again.close();
  const sizes = Object.values(await sizesOf(disk));
  assert.ok(
    sizes.every((size) => size === segmentBytes),
    `${sizes} has a recycled odd size`,
  );
});

test("a large frame may be the first of all, also over a segment that was left empty", async () => {
  const disk = simDisk();
  const log = await openLog(disk);
  const bodies = await fill(log, 8);
  await log.close();
  const empty = await disk.open("00000000000000000009.log", { create: true });
  await empty.write(Buffer.alloc(segmentBytes), 0);
  await empty.close();
  const again = await openLog(disk);
  assert.equal(again.lastIndex, 8);
  bodies.push("L".repeat(7000), "after");
  for (const body of bodies.slice(8)) await append(again, frameOf(body));
  await again.close();
  const last = await openLog(disk);
  assert.deepEqual(await bodiesFrom(last, 1), bodies);
  await last.close();
});

test("trimmed segments are used again, two wait at most, and their old records stay dead", async () => {
  const disk = simDisk();
  let log = await openLog(disk);
  const bodies = await fill(log, 60);
  await log.trim(57);
  const names = await disk.list();
  assert.equal(names.filter((name) => name.startsWith("spare-")).length, 2);
  for (let round = 0; round < 30; round += 1) {
    bodies.push(...(await fill(log, log.lastIndex + 1)));
    await log.close();
    log = await openLog(disk);
    assert.equal(log.cut, undefined);
    assert.equal(log.lastIndex, bodies.length);
    assert.deepEqual(await bodiesFrom(log, 57), bodies.slice(56));
  }
  await log.close();
});

test("a power failure while several segments are removed leaves no gap", async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const crashPoint = Promise.withResolvers<void>();
    let removed = 0;
    const latency = async (operation: SimDiskOperation): Promise<void> => {
      if (operation !== "remove") return;
      removed += 1;
      if (removed === 2) crashPoint.resolve();
      if (removed >= 2) await new Promise(() => {});
    };
    const disk = simDisk(latency, seed);
    const log = await openLog(disk, { durability: "os" });
    const bodies = await fill(log, 60);
    await Promise.race([log.trim(57), crashPoint.promise]);
    removed = -100;
    const again = await openLog(disk.crash("power"));
    assert.equal(again.lastIndex, 60);
    assert.deepEqual(await bodiesFrom(again, 57), bodies.slice(56));
    await again.close();
  }
});

test("a segment is not taken from under a reader", async () => {
  const log = await openLog(simDisk());
  const bodies = await fill(log, 30);
  const seen: string[] = [];
  for await (const record of log.readFrom(1)) {
    await log.trim(31);
    seen.push(record.body.toString());
    await append(log, frameOf("new".repeat(60)));
  }
  assert.deepEqual(seen, bodies);
  await log.trim(31);
  assert.ok(log.firstIndex > 20);
  await log.close();
});

test("an append is acknowledged after its sync, and only in the mode that says so", async () => {
  for (const durability of ["fsync", "interval", "os"] as const satisfies Durability[]) {
    const order: string[] = [];
    const log = await openLog(
      simDisk(async (operation) => {
        if (operation === "write" || operation === "sync") order.push(operation);
      }),
      { durability },
    );
    await append(log, frameOf("first"));
    order.length = 0;
    await append(log, frameOf("second"));
    order.push("acknowledged");
    const expected = durability === "fsync" ? ["write", "sync"] : ["write"];
    assert.deepEqual(order, [...expected, "acknowledged"]);
    await log.sync();
    assert.equal(order.at(-1), durability === "fsync" ? "acknowledged" : "sync");
    await log.close();
  }
});

test("syncs and appends are timed", async () => {
  let nowMs = 0;
  const seen: (string | number)[][] = [];
  const disk = simDisk(async (operation) => {
    if (operation === "sync") nowMs += 250;
  });
  const log = await openLog(disk, {
    monotonicMs: () => nowMs,
    onSync: (seconds) => seen.push(["sync", seconds]),
    onAppend: (seconds, bytes) => seen.push(["append", seconds, bytes]),
  });
  await append(log, frameOf("first"));
  seen.length = 0;
  await append(log, frameOf("second"));
  assert.deepEqual(seen, [
    ["sync", 0.25],
    ["append", 0.25, 128],
  ]);
  await log.close();
});

test("a disk without room for a whole segment takes small ones, and whole ones again with space", async () => {
  const disk = simDisk();
  disk.capacityBytes = segmentBytes - 1;
  const log = await openLog(disk);
  const bodies = ["a", "b", "c"];
  for (const body of bodies) await append(log, frameOf(body));
  assert.ok(log.bytes < segmentBytes, `${log.bytes} bytes`);
  disk.capacityBytes = 10 * segmentBytes;
  while (log.bytes < segmentBytes) {
    bodies.push("more");
    await append(log, frameOf("more"));
  }
  await log.trim(log.lastIndex);
  assert.equal(log.bytes, segmentBytes, "small ones are not kept for later");
  await log.close();
  const again = await openLog(disk);
  assert.equal(again.lastIndex, bodies.length);
  assert.deepEqual(await bodiesFrom(again, again.firstIndex), bodies.slice(again.firstIndex - 1));
  await again.close();
});

test("a disk that is too full for the first segment refuses, and recovers with space", async () => {
  const disk = simDisk();
  disk.capacityBytes = 127;
  const log = await openLog(disk);
  for (let tries = 0; tries < 3; tries += 1) {
    await assert.rejects(append(log, frameOf("a")), { code: "disk_full" });
    assert.deepEqual([log.firstIndex, log.lastIndex], [1, 0]);
    assert.deepEqual(await disk.list(), [], "a half-made file takes no room");
  }
  disk.capacityBytes = 10 * segmentBytes;
  assert.equal(await append(log, frameOf("b")), 1);
  assert.deepEqual(await bodiesFrom(log, 1), ["b"]);
  await log.close();
});

test("a disk that runs full on the way refuses, and recovers with space or by trimming", async () => {
  const disk = simDisk();
  disk.capacityBytes = 2 * segmentBytes;
  const log = await openLog(disk);
  const bodies = await fill(log, 16);
  for (let tries = 0; tries < 3; tries += 1) {
    await assert.rejects(append(log, frameOf("x".repeat(180))), { code: "disk_full" });
    assert.equal(log.lastIndex, 16);
  }
  assert.deepEqual(await bodiesFrom(log, 1), bodies);
  await log.trim(9);
  bodies.push(...(await fill(log, 24)));
  disk.capacityBytes = 4 * segmentBytes;
  bodies.push(...(await fill(log, 40)));
  assert.deepEqual(await bodiesFrom(log, 9), bodies.slice(8));
  await log.close();
  const again = await openLog(disk);
  assert.deepEqual(await bodiesFrom(again, 9), bodies.slice(8));
  await again.close();
});

test("a full disk in the middle of any step of an append leaves the log as it was", async () => {
  for (const operation of ["open", "write", "sync", "rename", "syncDirectory"] as const) {
    for (const before of [0, 1, 8]) {
      const disk = simDisk();
      const log = await openLog(disk);
      const bodies = await fill(log, before);
      disk.failNext(operation, "ENOSPC");
      // What was prepared ahead spares some of the steps; then the fault hits a later append.
      for (let failed = false; !failed && log.lastIndex < 40; ) {
        const body = `${log.lastIndex + 1}`.padEnd(192, "-");
        try {
          await append(log, frameOf(body));
          bodies.push(body);
        } catch (error) {
          failed = true;
          assert.equal((error as { code?: string }).code, "disk_full");
        }
      }
      const crashed = disk.crash("process");
      const again = await openLog(crashed);
      assert.deepEqual(await bodiesFrom(again, 1), bodies, `${operation} after ${before}`);
      bodies.push(...(await fill(again, bodies.length + 9)));
      assert.deepEqual(await bodiesFrom(again, 1), bodies);
      await again.close();
    }
  }
});

test("a refused record that lacked only its padding does not come back", async () => {
  for (const durability of ["fsync", "interval", "os"] as const satisfies Durability[]) {
    for (let seed = 1; seed <= 60; seed += 1) {
      const disk = simDisk(undefined, seed);
      const log = await openLog(disk, { durability });
      const bodies = await fill(log, 2);
      await log.sync();
      for (const body of ["", "r"]) {
        disk.failNext("write", "ENOSPC");
        await assert.rejects(append(log, frameOf(body)), { code: "disk_full" });
      }
      const again = await openLog(disk.crash("power"), { durability });
      assert.deepEqual(await bodiesFrom(again, 1), bodies);
      await again.close();
    }
  }
});

test("after a failed write or sync every call is refused, in every mode", async () => {
  for (const durability of ["fsync", "interval", "os"] as const satisfies Durability[]) {
    for (const operation of ["write", "sync"] as const) {
      const disk = simDisk();
      const log = await openLog(disk, { durability });
      const bodies = await fill(log, 2);
      disk.failNext(operation, "EIO");
      const failed = { code: "storage_failed" };
      const inSync = operation === "sync" && durability !== "fsync";
      await assert.rejects(inSync ? log.sync() : append(log, frameOf("lost")), failed);
      assert.equal(log.lastIndex, 2);
      await assert.rejects(append(log, frameOf("refused")), failed);
      await assert.rejects(log.sync(), failed);
      await assert.rejects(log.trim(2), failed);
      await assert.rejects(bodiesFrom(log, 1), failed);
      await log.close();
      const again = await openLog(disk, { durability });
      assert.deepEqual((await bodiesFrom(again, 1)).slice(0, 2), bodies);
      await again.close();
    }
  }
});

test("a disk that is full when acknowledged records are synced is a failed disk", async () => {
  const disk = simDisk();
  const log = await openLog(disk, { durability: "interval" });
  await fill(log, 2);
  disk.failNext("sync", "ENOSPC");
  await assert.rejects(log.sync(), { code: "storage_failed" });
  await assert.rejects(append(log, frameOf("refused")), { code: "storage_failed" });
  await log.close();
});

test("a failed preparation in the background is made up for when the segment is needed", async () => {
  for (const code of ["ENOSPC", "EIO"]) {
    const disk = simDisk();
    const log = await openLog(disk, { durability: "os" });
    await fill(log, 3);
    disk.failNext("sync", code);
    const bodies = await fill(log, 20);
    assert.deepEqual(await bodiesFrom(log, 4), bodies);
    await log.close();
  }
});

test("closing waits for the append that is under way and for nothing after it", async () => {
  const disk = simDisk();
  const log = await openLog(disk);
  const under = append(log, frameOf("last"));
  const closing = log.close();
  await assert.rejects(append(log, frameOf("late")), { code: "closed" });
  assert.equal(await under, 1);
  await closing;
  const again = await openLog(disk);
  assert.deepEqual(await bodiesFrom(again, 1), ["last"]);
  await again.close();
});

test("closing syncs what was not synced, so a power failure after it takes nothing", async () => {
  const disk = simDisk();
  const log = await openLog(disk, { durability: "os" });
  const bodies = await fill(log, 30);
  await log.close();
  const again = await openLog(disk.crash("power"), { durability: "os" });
  assert.deepEqual(await bodiesFrom(again, 1), bodies);
  await again.close();
});
