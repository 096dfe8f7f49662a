/** Rows as the engine's users meet them: where they are read from, what to wait for, what they cost. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { settle } from "../../simulated/src/index.ts";
import { EngineWorld, type EngineWorldOptions, standing } from "../test/engine-world.ts";
import { sealed } from "../test/sealed.ts";
import { added, changed, moved, removed, type Thing, thing, things } from "../test/things.ts";
import { put } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import { FaultError } from "./fault.ts";
import type { KvRange } from "./kv/kv.ts";
import type { RowCursor } from "./merged-scan.ts";
import { recordOf } from "./row-codec.ts";

async function setup(
  options: EngineWorldOptions = {},
): Promise<{ world: EngineWorld; engine: Engine }> {
  const world = new EngineWorld({ minFreeBytes: 1000, ...options });
  return { world, engine: await world.open() };
}

/** How often the kv is asked for a single key. */
function countGets(world: EngineWorld): () => string[] {
  const asked: string[] = [];
  world.onGet = (key) => asked.push(key);
  return () => asked.splice(0).filter((key) => key.startsWith(things.prefix));
}

test("a row is read as the object that was committed, before it is durable", async () => {
  const { engine } = await setup();
  const low = thing("a", "low");
  const group = engine.commit([added(low)]);
  assert.equal(engine.row("a"), low);
  assert.equal(engine.rowGroup("a"), group);
  assert.equal(engine.groupOf("t/a"), group);
  assert.equal(engine.rowGroup("never"), undefined);
  await group.done;
  assert.equal(engine.rowGroup("a"), undefined);
  assert.equal(engine.whenRowDurable("a"), undefined);
  const { after: high } = moved(low, "high");
  const next = engine.commit([{ before: low, after: high }]);
  assert.equal(engine.row("a"), high);
  assert.equal(engine.rowGroup("a"), next);
  assert.equal(await standing(engine.whenRowDurable("a")!), "done");
});

test("a row that was deleted is gone, and there is a group to wait for", async () => {
  const { engine } = await setup();
  const low = thing("a", "low");
  await engine.commit([added(low)]).done;
  await engine.flushNow();
  const group = engine.commit([removed(low)]);
  assert.equal(engine.row("a"), undefined);
  assert.equal(engine.rowGroup("a"), group);
  await engine.flushNow();
  assert.equal(engine.row("a"), undefined);
});

test("rows and other keys of one commit are durable together", async () => {
  const { world, engine } = await setup();
  await engine.commit([added(thing("a", "low"))], [put("k", "v")]).done;
  assert.deepEqual(world.groups, [1]);
  world.crash("power");
  const next = await world.open();
  assert.deepEqual(next.row("a"), thing("a", "low"));
  assert.equal(next.getText("k"), "v");
});

test("the kv has whole records, however rows came about", async () => {
  const { world, engine } = await setup();
  const low = thing("a", "low", "note");
  const high = moved(low, "high");
  await engine.commit([added(low)]).done;
  await engine.flushNow();
  await engine.commit([high]).done;
  assert.deepEqual(engine.get("t/a"), recordOf(high.after, things));
  assert.deepEqual(await engine.scan({ after: "t/", before: "t/~" }, 9), [
    ["t/a", recordOf(high.after, things)],
  ]);
  assert.deepEqual(await engine.scanKeys({ after: "t/", before: "t/~" }, 9), ["t/a"]);
  await engine.flushNow();
  assert.deepEqual(world.contents.get("t/a"), sealed("t/a", recordOf(high.after, things)));
  assert.deepEqual(world.kvWrites.at(-1), [
    "t/a",
    "-shelf/low/a",
    "shelf/high/a",
    "codeq/meta/position",
  ]);
});

test("a row that comes and goes between two flushes leaves no write", async () => {
  const { world, engine } = await setup();
  const low = thing("a", "low");
  const high = moved(low, "high");
  await engine.commit([added(low), high, removed(high.after), added(thing("b", ""))]).done;
  assert.equal(engine.stats().overlayEntries, 1);
  await engine.flushNow();
  assert.deepEqual(world.kvWrites.at(-1), ["t/b", "codeq/meta/position"]);
});

test("after a flush those worth it stay in memory, until a later flush says otherwise", async () => {
  const { world, engine } = await setup();
  const asked = countGets(world);
  const [a, b] = [thing("a", "low"), thing("b", "low")];
  engine.commit([{ before: undefined, after: a, keep: true }, added(b)]);
  await engine.flushNow();
  assert.equal(engine.row("a"), a);
  assert.deepEqual(engine.row("b"), b);
  assert.deepEqual(asked(), ["t/b"]);
  const { after: high } = moved(a, "high");
  engine.commit([{ before: a, after: high, keep: true }]);
  await engine.flushNow();
  assert.equal(engine.row("a"), high);
  const noted = changed(high, { note: "not worth it" });
  engine.commit([{ before: high, after: noted }]);
  await engine.flushNow();
  assert.deepEqual(asked(), []);
  assert.deepEqual(engine.row("a"), noted);
  assert.deepEqual(asked(), ["t/a"]);
});

test("memory keeps no more rows than its limit", async () => {
  const { world, engine } = await setup({ flushBytes: 1 << 30 });
  const asked = countGets(world);
  const rows = Array.from({ length: 32_768 + 10 }, (_, n) => thing(`n${n}`, ""));
  engine.commit(rows.map((after) => ({ before: undefined, after, keep: true })));
  await engine.flushNow();
  for (const { id } of rows) engine.row(id);
  assert.equal(asked().length, 10);
});

test("rows that were read ahead are cheap, and what is newer in memory is what counts", async () => {
  const { world, engine } = await setup();
  const asked = countGets(world);
  const rows = ["a", "b", "c", "d"].map((id) => thing(id, "low"));
  const [a, b, c, d] = rows as [Thing, Thing, Thing, Thing];
  engine.commit(rows.map(added));
  await engine.flushNow();
  const high = moved(b, "high");
  engine.commit([high, removed(c)]);
  const found = await engine.readRowsAhead(["d", "a", "c", "b", "missing"]);
  assert.deepEqual(found, [d, a, high.after]);
  assert.equal(engine.row("a"), found[1]);
  assert.equal(engine.row("a"), found[1]);
  assert.deepEqual(asked(), []);
  await engine.flushNow();
  assert.deepEqual(engine.row("b"), high.after);
  assert.equal(engine.row("c"), undefined);
  assert.deepEqual(asked(), ["t/b", "t/c"]);
});

test("what a flush wrote while rows were read ahead is read anew", async () => {
  const { engine } = await setup();
  const rows = ["a", "b", "c"].map((id) => thing(id, "low"));
  engine.commit(rows.map(added));
  await engine.flushNow();
  const reading = engine.readRowsAhead(["a", "b", "c"]);
  const high = moved(rows[1]!, "high");
  engine.commit([high]);
  await engine.flushNow();
  await reading;
  assert.deepEqual(engine.row("b"), high.after);
});

test("a row whose bytes are damaged is not there, and who asks is told its key", async () => {
  const { world, engine } = await setup();
  const damaged: string[] = [];
  engine.onDamaged = (key) => damaged.push(key);
  engine.commit([added(thing("a", "low")), added(thing("b", "low"))]);
  await engine.flushNow();
  world.contents.get("t/a")!.writeUInt8(9, 7);
  assert.deepEqual(await engine.readRowsAhead(["a", "b"]), [thing("b", "low")]);
  assert.deepEqual(damaged, []);
  assert.equal(engine.row("a"), undefined);
  assert.deepEqual(damaged, ["t/a"]);
  assert.throws(() => engine.get("t/a"), { code: "corrupt" });
  assert.ok(engine.raw("t/a"), "the bytes are there to be set aside");
});

test("a row is never written like other keys, and no change is without a row", async () => {
  const { engine } = await setup();
  assert.throws(() => engine.commit([], [put("t/a", "bytes")]), { code: "ERR_ASSERTION" });
  const nothing = { before: undefined, after: undefined };
  assert.throws(() => engine.commit([nothing]));
});

test("a full disk brings rows back to what the log holds, in memory and in scans", async () => {
  const { world, engine } = await setup();
  const [a, b] = [thing("a", "low"), thing("b", "low")];
  engine.commit([{ before: undefined, after: a, keep: true }, added(b)]);
  await engine.flushNow();
  const high = moved(b, "high");
  await engine.commit([high]).done;
  world.disk.capacityBytes = 0;
  const rebuilt = Promise.withResolvers<void>();
  engine.onRollback = () => rebuilt.promise;
  const refused = engine.commit(
    [removed(a), moved(high.after, "top"), added(thing("c", "low"))],
    [put("large", "x".repeat(6000))],
  );
  assert.equal(await standing(refused.done), "disk_full");
  rebuilt.resolve();
  await settle();
  assert.deepEqual(engine.row("a"), a);
  assert.deepEqual(engine.row("b"), high.after);
  assert.equal(engine.row("c"), undefined);
  assert.equal(engine.rowGroup("b"), undefined);
  const keys = await engine.scanKeys({ after: "shelf/", before: "shelf/~" }, 9);
  assert.deepEqual(keys, ["shelf/high/b", "shelf/low/a"]);
});

test("what memory keeps is not older than what the kv kept of a batch that it reported as failed", async () => {
  const { world, engine } = await setup({ flushBytes: 4096 });
  const low = thing("a", "low");
  engine.commit([{ before: undefined, after: low, keep: true }]);
  await engine.flushNow();
  await engine.readRowsAhead(["a"]);
  const { after: high } = moved(low, "high");
  await engine.commit([{ before: low, after: high }], [put("z", "x".repeat(4096))]).done;
  world.afterWrite = () => Promise.reject(new FaultError("disk_full", "no room"));
  world.disk.capacityBytes = 0;
  const refused = engine.commit([], [put("large", "x".repeat(6000))]);
  await assert.rejects(refused.done, { code: "disk_full" });
  await settle();
  assert.deepEqual(world.contents.get("t/a"), sealed("t/a", recordOf(high, things)));
  assert.deepEqual(engine.row("a"), high);
});

test("while a refused change is being undone, the group to wait for is one that was refused", async () => {
  const { world, engine } = await setup();
  const low = thing("a", "low");
  await engine.commit([added(low)]).done;
  const reading = Promise.withResolvers<void>();
  world.disk.capacityBytes = 0;
  const refused = engine.commit([moved(low, "high")], [put("large", "x".repeat(6000))]);
  world.disk.slow("read", reading.promise);
  await assert.rejects(refused.done, { code: "disk_full" });
  assert.equal((engine.row("a") as Thing).shelf, "high");
  await assert.rejects(engine.rowGroup("a")!.done, { code: "disk_full" });
  assert.equal(await standing(engine.whenRowDurable("a")!), "pending");
  const undone = engine.whenRowDurable("a")!;
  reading.resolve();
  await undone;
  assert.equal((engine.row("a") as Thing).shelf, "low");
  assert.equal(engine.rowGroup("a"), undefined);
});

test("after a failure nobody is told of what was not durable", async () => {
  const { world, engine } = await setup();
  const low = thing("a", "low");
  await engine.commit([added(low)]).done;
  world.disk.failNext("sync", "EIO");
  engine.commit([moved(low, "high")]);
  await settle();
  assert.equal(engine.state, "failed");
  await assert.rejects(engine.rowGroup("a")!.done, { code: "storage_failed" });
  await assert.rejects(engine.whenRowDurable("a")!, { code: "storage_failed" });
});

test("what the kv does not hold yet is told oldest first", async () => {
  const { world, engine } = await setup({ flushBytes: 1000 });
  const gate = Promise.withResolvers<void>();
  world.beforeWrite = () => gate.promise;
  const low = thing("a", "low", "x".repeat(1000));
  await engine.commit([added(low)], [put("k", "1")]).done;
  const high = moved(low, "high");
  await engine.commit([high], [put("k", "2")]).done;
  const { rows, entries } = engine.unflushed();
  assert.deepEqual(
    Array.from(rows, ({ below, row }) => [below, row]),
    [
      [undefined, low],
      [low, high.after],
    ],
  );
  assert.deepEqual(
    Array.from(entries, ([key, { text }]) => [key, text]),
    [
      ["k", "1"],
      ["k", "2"],
    ],
  );
  gate.resolve();
  await engine.flushNow();
  assert.deepEqual([...engine.unflushed().rows], []);
});

test("a flush gives way between pieces, and sooner or later writes everything", async () => {
  const turns: number[] = [];
  const { world, engine } = await setup({
    flushBytes: 1 << 30,
    defer: (run) => {
      turns.push(world.kvWrites.length);
      queueMicrotask(run);
    },
  });
  const rows = Array.from({ length: 1000 }, (_, n) => thing(`n${n}`, "low"));
  await engine.commit(rows.map(added)).done;
  turns.length = 0;
  await engine.flushNow();
  assert.equal(turns.length, 10);
  assert.equal(world.kvWrites.at(-1)?.length, 2001);
});

test("memory that rows are said to take grows with their text", async () => {
  const { engine } = await setup();
  const bytes = (): number => engine.stats().overlayBytes;
  engine.commit([added(thing("a", ""))]);
  const short = bytes();
  engine.commit([added(thing("b", "", "x".repeat(5000)))]);
  assert.ok(bytes() - short > short + 5000 - 100, `${short}, ${bytes()}`);
});

test("rows are scanned in either order, from memory and from the kv, without what is gone", async () => {
  const { world, engine } = await setup();
  const rows = ["a", "b", "c", "d"].map((id) => thing(id, "low"));
  const [a, b, c, d] = rows as [Thing, Thing, Thing, Thing];
  await engine.commit([added(a), added(b), added(c)]).done;
  await engine.flushNow();
  const { after: high } = moved(b, "high");
  engine.commit([{ before: b, after: high }, removed(c), added(d)]);
  const read = async (range: KvRange, limit = 9): ReturnType<RowCursor["next"]> => {
    const cursor = engine.openRows(range);
    const found = await cursor.next(limit);
    await cursor.close();
    return found;
  };
  const idsOf = async (range: KvRange, limit = 9): Promise<string[]> =>
    (await read(range, limit)).map(([id]) => id);
  const all = { after: "", before: "" };
  const everything = [
    ["a", a],
    ["b", high],
    ["d", d],
  ];
  assert.deepEqual(await read(all), everything);
  assert.deepEqual(await idsOf({ ...all, isReverse: true }), ["d", "b", "a"]);
  assert.deepEqual(await idsOf({ ...all, isReverse: true }, 2), ["d", "b"]);
  assert.deepEqual(await idsOf({ after: "", before: "b", isReverse: true }), ["a"]);
  assert.deepEqual(await idsOf({ after: "a", before: "" }), ["b", "d"]);
  const cursor = engine.openRows(all);
  await engine.commit([removed(a), added(thing("e", "low"))]).done;
  await engine.flushNow();
  const pieces = [await cursor.next(1), await cursor.next(1), await cursor.next(9)];
  assert.deepEqual(pieces.flat(), everything, "a view stays as it was, piece by piece");
  await cursor.close();
  await engine.commit([added(a)]).done;
  await engine.flushNow();
  world.contents.set("t/a", Buffer.from("rotten"));
  const [first] = await read(all, 1);
  assert.deepEqual(first, ["a", undefined]);
});
