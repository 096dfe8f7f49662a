import assert from "node:assert/strict";
import { test } from "node:test";
import { diskContract } from "../../engine/test/disk-contract.ts";
import { SimDisk, type SimDiskOptions } from "./sim-disk.ts";

/** mulberry32: neighbouring seeds give unrelated numbers. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function setup(seed = 1, options: Partial<SimDiskOptions> = {}): SimDisk {
  return new SimDisk({ random: seeded(seed), ...options });
}

async function put(disk: SimDisk, name: string, text: string): Promise<void> {
  const file = await disk.open(name, { create: true });
  await file.write(Buffer.from(text), 0);
  await file.close();
}

async function putSynced(disk: SimDisk, name: string, text: string): Promise<void> {
  await put(disk, name, text);
  const file = await disk.open(name);
  await file.sync();
  await file.close();
  await disk.syncDirectory();
}

async function get(disk: SimDisk, name: string): Promise<string> {
  const file = await disk.open(name);
  const bytes = await file.read(0, await file.size());
  await file.close();
  return bytes.toString();
}

/** What a scenario leaves, over many seeds. */
async function outcomes(run: (disk: SimDisk) => Promise<string>): Promise<Set<string>> {
  const seen = new Set<string>();
  for (let seed = 1; seed <= 300; seed += 1) seen.add(await run(setup(seed)));
  return seen;
}

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol("pending");
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  return (await Promise.race([promise, Promise.resolve(pending)])) === pending;
}

diskContract("SimDisk", async () => setup());

test("the end of a process keeps every finished write", async () => {
  const seen = await outcomes(async (disk) => {
    await put(disk, "a", "one");
    await disk.rename("a", "b");
    return get(disk.crash("process"), "b");
  });
  assert.deepEqual([...seen], ["one"]);
});

test("the end of a process may leave any part of the write in flight", async () => {
  const seen = await outcomes(async (disk) => {
    const file = await disk.open("a", { create: true });
    const write = file.write(Buffer.from("abc"), 0);
    const left = await get(disk.crash("process"), "a");
    assert.ok(await isPending(write), "a dead disk does not answer");
    return left;
  });
  assert.deepEqual([...seen].sort(), ["", "a", "ab", "abc"]);
});

test("what was unsynced at the end of a process is still unsynced", async () => {
  const seen = await outcomes(async (disk) => {
    await putSynced(disk, "a", "old");
    await put(disk, "a", "new");
    return get(disk.crash("process").crash("power"), "a");
  });
  assert.ok(seen.has("old") && seen.has("new"));
});

test("a power failure keeps what was synced", async () => {
  const seen = await outcomes(async (disk) => {
    await putSynced(disk, "a", "kept");
    return get(disk.crash("power"), "a");
  });
  assert.deepEqual([...seen], ["kept"]);
});

test("a power failure keeps any selection of the unsynced writes, and tears them", async () => {
  const seen = await outcomes(async (disk) => {
    await putSynced(disk, "a", "....");
    const file = await disk.open("a");
    for (const at of [0, 2]) await file.write(Buffer.from("xx"), at);
    return get(disk.crash("power"), "a");
  });
  for (const one of ["....", "xxxx", "xx..", "..xx", "x...", "xxx.", "..x."]) {
    assert.ok(seen.has(one), `${one} was not seen`);
  }
});

test("a torn write can miss a sector in its middle", async () => {
  const seen = await outcomes(async (disk) => {
    await putSynced(disk, "a", ".".repeat(1536));
    await put(disk, "a", "x".repeat(1536));
    const text = await get(disk.crash("power"), "a");
    return [0, 512, 1024].map((at) => text.charAt(at)).join("");
  });
  assert.ok(seen.has("x.x") && seen.has(".x.") && seen.has("xxx") && seen.has("..."));
});

test("a sync covers the writes that were finished when it began", async () => {
  const seen = await outcomes(async (disk) => {
    await putSynced(disk, "a", "..");
    const file = await disk.open("a");
    await file.write(Buffer.from("x"), 0);
    const gate = Promise.withResolvers<void>();
    disk.slow("sync", gate.promise);
    const sync = file.sync();
    await file.write(Buffer.from("y"), 1);
    gate.resolve();
    await sync;
    return get(disk.crash("power"), "a");
  });
  assert.deepEqual([...seen].sort(), ["x.", "xy"]);
});

/** Three bytes, each written before a sync of its own; the syncs are under way until they are let go. */
async function threeSyncs(disk: SimDisk): Promise<{ end: (() => void)[]; syncs: Promise<void>[] }> {
  await putSynced(disk, "a", "...");
  const file = await disk.open("a");
  const gates = [0, 1, 2].map(() => Promise.withResolvers<void>());
  const syncs: Promise<void>[] = [];
  for (const [at, { promise }] of gates.entries()) {
    await file.write(Buffer.from("x"), at);
    disk.slow("sync", promise);
    syncs.push(file.sync());
  }
  return { end: gates.map(({ resolve }) => resolve), syncs };
}

test("syncs under way end in any order, and each covers what was written before it began", async () => {
  const certain = ["x..", "xx.", "xxx"];
  for (const order of [[], [0], [1], [2], [0, 1], [1, 0], [2, 0], [0, 1, 2], [2, 1, 0]]) {
    const seen = await outcomes(async (disk) => {
      const { end, syncs } = await threeSyncs(disk);
      for (const sync of order) {
        end[sync]?.();
        await syncs[sync];
      }
      for (const [sync, promise] of syncs.entries()) {
        assert.equal(await isPending(promise), !order.includes(sync));
      }
      return get(disk.crash("power"), "a");
    });
    const kept = order.length === 0 ? "..." : certain[Math.max(...order)]!;
    const possible = ["...", "..x", ".x.", ".xx", "x..", "x.x", "xx.", "xxx"].filter((left) =>
      [...kept].every((byte, at) => byte === "." || left[at] === byte),
    );
    assert.deepEqual([...seen].sort(), possible.sort(), `after ${order}`);
  }
});

test("of two syncs on one handle only one is told of a failure, of two handles each", async () => {
  for (const isShared of [true, false]) {
    const seen = await outcomes(async (disk) => {
      await putSynced(disk, "a", "..");
      const first = await disk.open("a");
      const second = isShared ? first : await disk.open("a");
      const gate = Promise.withResolvers<void>();
      await first.write(Buffer.from("x"), 0);
      disk.slow("sync", gate.promise);
      const sync = first.sync();
      await second.write(Buffer.from("y"), 1);
      disk.failNext("sync", "EIO");
      await assert.rejects(second.sync(), { code: "EIO" });
      gate.resolve();
      const told = await sync.then(
        () => "success",
        (error: { code?: string }) => error.code,
      );
      await first.sync();
      await second.sync();
      return `${told} ${(await get(disk.crash("power"), "a"))[0]}`;
    });
    const told = isShared ? "success" : "EIO";
    assert.deepEqual([...seen].sort(), [`${told} .`, `${told} x`]);
  }
});

test("names that were not synced may be undone by a power failure, each by itself", async () => {
  const seen = await outcomes(async (disk) => {
    for (const name of ["a", "b"]) await putSynced(disk, name, name);
    await disk.rename("a", "c");
    await disk.remove("b");
    const file = await disk.open("d", { create: true });
    await file.close();
    return (await disk.crash("power").list()).join("");
  });
  assert.deepEqual([...seen].sort(), ["ab", "abd", "a", "ad", "bc", "bcd", "c", "cd"].sort());
});

test("a synced directory keeps its names, and the file behind a name its content", async () => {
  const seen = await outcomes(async (disk) => {
    await putSynced(disk, "a", "content");
    await disk.rename("a", "b");
    await disk.syncDirectory();
    const next = disk.crash("power");
    return `${await next.list()} ${await get(next, "b")}`;
  });
  assert.deepEqual([...seen], ["b content"]);
});

test("a dead disk answers nothing", async () => {
  const disk = setup();
  const file = await disk.open("a", { create: true });
  disk.crash("power");
  for (const call of [disk.list(), file.sync(), file.read(0, 1), disk.open("a")]) {
    assert.ok(await isPending(call));
  }
});

test("the next operation fails on request, and the one after it does not", async () => {
  const disk = setup();
  const file = await disk.open("a", { create: true });
  disk.failNext("write", "EIO");
  await assert.rejects(file.write(Buffer.from("x"), 0), { code: "EIO" });
  await file.write(Buffer.from("y"), 0);
  assert.equal(await get(disk, "a"), "y");
});

test("a failed write leaves any part of it but the whole", async () => {
  const seen = await outcomes(async (disk) => {
    await put(disk, "a", "...");
    disk.failNext("write", "ENOSPC");
    await assert.rejects(put(disk, "a", "xyz"), { code: "ENOSPC" });
    return get(disk, "a");
  });
  assert.deepEqual([...seen].sort(), ["...", "x..", "xy."]);
});

test("what a failed sync gave up on is not saved by the next one that succeeds", async () => {
  const seen = await outcomes(async (disk) => {
    await putSynced(disk, "a", "old");
    const file = await disk.open("a");
    await file.write(Buffer.from("new"), 0);
    disk.failNext("sync", "EIO");
    await assert.rejects(file.sync(), { code: "EIO" });
    await file.sync();
    assert.equal(await get(disk, "a"), "new");
    return get(disk.crash("power"), "a");
  });
  assert.deepEqual([...seen].sort(), ["new", "old"]);
});

test("files grow up to the capacity, which can change; overwriting takes no room", async () => {
  const disk = setup(1, { capacityBytes: 10 });
  await put(disk, "a", "12345678");
  assert.equal(await disk.freeBytes(), 2);
  await assert.rejects(put(disk, "b", "123"), { code: "ENOSPC" });
  await put(disk, "a", "abcdefgh");
  await disk.remove("b");
  disk.capacityBytes = 11;
  await put(disk, "b", "123");
  assert.equal(await disk.freeBytes(), 0);
});

test("an operation takes its time from the latency it is given", async () => {
  const asked: string[] = [];
  const gate = Promise.withResolvers<void>();
  const disk = setup(1, {
    latency: (operation) => {
      asked.push(operation);
      return operation === "list" ? gate.promise : Promise.resolve();
    },
  });
  const list = disk.list();
  assert.ok(await isPending(list));
  await put(disk, "a", "x");
  gate.resolve();
  assert.deepEqual(await list, ["a"]);
  assert.deepEqual(asked, ["list", "open", "write", "close"]);
});

test("the same calls with the same random numbers leave the same disk", async () => {
  const run = async (): Promise<string> => {
    const disk = setup(7);
    for (const name of ["a", "b", "c"]) await put(disk, name, name.repeat(700));
    const next = disk.crash("power");
    const left: string[] = [];
    for (const name of await next.list()) left.push(name, await get(next, name));
    return left.join("|");
  };
  assert.equal(await run(), await run());
});
