import assert from "node:assert/strict";
import { test } from "node:test";
import { appendVersion1, EngineWorld } from "../test/engine-world.ts";
import { create, put, remove } from "./batch-codec.ts";
import type { Engine } from "./engine.ts";
import type { Derive } from "./flusher.ts";
import { type Indexing, indexWrites, type Row } from "./index-keys.ts";

/** The value of `t/<name>` is the shelf it is on; `shelf/<shelf>/<name>` finds it there. */
interface Thing extends Row {
  readonly name: string;
  readonly shelf: string;
}

const indexing: Indexing = {
  prefix: "t/",
  rowOf: (text) => {
    const [name = "", shelf = ""] = text.split(" ");
    return shelf === "" ? undefined : { name, shelf };
  },
  rowsIn: ({ before }) => (before.startsWith("shelf/") ? () => true : undefined),
  keysOf: (row) => [keyOf(row as Thing)],
  valueOf: (row) => Buffer.from((row as Thing).name),
};
const keyOf = ({ shelf, name }: Thing): string => `shelf/${shelf}/${name}`;
const thing = (name: string, shelf: string): Thing => ({ name, shelf });
const textOf = ({ name, shelf }: Thing): string => `${name} ${shelf}`;

/** How many things there are, counted as the store does: from the entries that a flush brings. */
const countThings: Derive = (entries, get) => {
  let count = Number(get("count")?.toString() ?? 0);
  for (const [key, { row, below, isDeleted, born }] of entries) {
    count += Number(row !== undefined) - Number(below !== undefined);
    if (key.startsWith("shelf/")) count += isDeleted ? -1 : Number(born);
  }
  return [{ key: "count", value: Buffer.from(String(count)) }];
};

async function shelves(engine: Engine): Promise<string[]> {
  return engine.scanKeys({ after: "shelf/", before: "shelf/~" }, 100);
}

function contents(world: EngineWorld): string[] {
  return [...world.contents.keys()].filter((key) => key.startsWith("shelf/")).sort();
}

test("an index key is where the newest row says, in scans at once and in the kv after a flush", async () => {
  const world = new EngineWorld({ indexing });
  const engine = await world.open();
  const [low, high] = [thing("a", "low"), thing("a", "high")];
  engine.commit([create("t/a", textOf(low), low)]);
  assert.deepEqual(await shelves(engine), ["shelf/low/a"]);
  await engine.flushNow();
  assert.deepEqual(contents(world), ["shelf/low/a"]);
  engine.commit([put("t/a", textOf(high), high, low)]);
  assert.deepEqual(await shelves(engine), ["shelf/high/a"]);
  assert.deepEqual(contents(world), ["shelf/low/a"]);
  await engine.flushNow();
  assert.deepEqual(contents(world), ["shelf/high/a"]);
  engine.commit([remove("t/a", high)]);
  assert.deepEqual(await shelves(engine), []);
  await engine.flushNow();
  assert.deepEqual(contents(world), []);
});

test("a row that stays where it is writes no index key", () => {
  const [before, after] = [thing("a", "low"), thing("a", "low")];
  assert.deepEqual(indexWrites({ row: after, below: before }, indexing), []);
  assert.deepEqual(indexWrites({ row: undefined, below: undefined }, indexing), []);
});

test("rows are read from the log and the kv when a process died before it flushed", async () => {
  const world = new EngineWorld({ indexing, derive: countThings });
  const engine = await world.open();
  const [a, b, c] = [thing("a", "low"), thing("b", "low"), thing("c", "low")];
  engine.commit([a, b, c].map((each) => create(`t/${each.name}`, textOf(each), each)));
  await engine.flushNow();
  const moved = thing("a", "high");
  engine.commit([put("t/a", textOf(moved), moved, a), remove("t/b", b)]);
  const d = thing("d", "low");
  await engine.commit([create("t/d", textOf(d), d)]).done;
  world.crash("process");
  const next = await world.open();
  assert.deepEqual(await shelves(next), ["shelf/high/a", "shelf/low/c", "shelf/low/d"]);
  assert.deepEqual(contents(world), await shelves(next));
  assert.equal(world.contents.get("count")?.toString(), "3");
});

test("a log that has index keys in it is replayed as it is", async () => {
  const world = new EngineWorld({ indexing, derive: countThings });
  await appendVersion1(world, [
    [create("t/a", "a low"), create("shelf/low/a", "a")],
    [create("t/b", "b low"), create("shelf/low/b", "b")],
    [put("t/a", "a high"), remove("shelf/low/a"), create("shelf/high/a", "a")],
  ]);
  const engine = await world.open();
  assert.deepEqual(await shelves(engine), ["shelf/high/a", "shelf/low/b"]);
  assert.deepEqual(contents(world), await shelves(engine));
  assert.equal(world.contents.get("count")?.toString(), "2");
});

test("changes on top of such a log come out the same when both are replayed together", async () => {
  const world = new EngineWorld({ indexing, derive: countThings });
  await appendVersion1(world, [
    ["a", "b", "c"].flatMap((name) => [
      create(`t/${name}`, `${name} low`),
      create(`shelf/low/${name}`, name),
    ]),
  ]);
  // The kv takes nothing, as on a full disk, so that both stay in the log.
  const before = new Map(world.contents);
  const engine = await world.open();
  const moved = thing("a", "high");
  engine.commit([put("t/a", textOf(moved), moved, thing("a", "low"))]);
  await engine.commit([remove("t/b", thing("b", "low"))]).done;
  world.crash("process");
  world.contents.clear();
  for (const [key, value] of before) world.contents.set(key, value);
  const next = await world.open();
  assert.deepEqual(await shelves(next), ["shelf/high/a", "shelf/low/c"]);
  assert.deepEqual(contents(world), await shelves(next));
  assert.equal(world.contents.get("count")?.toString(), "2");
});

test("a record that such a log made, that moved since and is gone leaves no index key", async () => {
  const world = new EngineWorld({ indexing, derive: countThings });
  await appendVersion1(world, [[create("t/a", "a low"), create("shelf/low/a", "a")]]);
  const before = new Map(world.contents);
  const engine = await world.open();
  const moved = thing("a", "high");
  engine.commit([put("t/a", textOf(moved), moved, thing("a", "low"))]);
  await engine.commit([remove("t/a", moved)]).done;
  world.crash("process");
  world.contents.clear();
  for (const [key, value] of before) world.contents.set(key, value);
  const next = await world.open();
  assert.deepEqual(await shelves(next), []);
  assert.deepEqual(contents(world), []);
  assert.equal(world.contents.get("count")?.toString(), "0");
});
