import assert from "node:assert/strict";
import { test } from "node:test";
import { EngineWorld } from "../test/engine-world.ts";
import { textOf } from "../test/sealed.ts";
import { added, changed, countIndexKeys, moved, removed, thing, things } from "../test/things.ts";
import type { Engine } from "./engine.ts";
import type { Row } from "./row-codec.ts";
import { writeIndexKeys } from "./row-codec.ts";

function shelves(engine: Engine): Promise<string[]> {
  return engine.scanKeys({ after: "shelf/", before: "shelf/~" }, 100);
}

function contents(world: EngineWorld): string[] {
  return [...world.contents.keys()].filter((key) => key.startsWith("shelf/")).sort();
}

test("an index key is where the newest row says, in scans at once and in the kv after a flush", async () => {
  const world = new EngineWorld();
  const engine = await world.open();
  const low = thing("a", "low");
  engine.commit([added(low)]);
  assert.deepEqual(await shelves(engine), ["shelf/low/a"]);
  await engine.flushNow();
  assert.deepEqual(contents(world), ["shelf/low/a"]);
  const high = moved(low, "high");
  engine.commit([high]);
  assert.deepEqual(await shelves(engine), ["shelf/high/a"]);
  assert.deepEqual(contents(world), ["shelf/low/a"]);
  await engine.flushNow();
  assert.deepEqual(contents(world), ["shelf/high/a"]);
  engine.commit([removed(high.after)]);
  assert.deepEqual(await shelves(engine), []);
  await engine.flushNow();
  assert.deepEqual(contents(world), []);
});

function writes(row: Row | undefined, below: Row | undefined): string[] {
  const written: string[] = [];
  const to = {
    put: (key: string, value: Buffer) => written.push(`${key}=${value}`),
    del: (key: string) => written.push(`-${key}`),
  };
  assert.equal(writeIndexKeys(to, { row, below }, things), written.length);
  return written;
}

test("only what differs is written", () => {
  const [both, left] = [thing("a", "left+right"), thing("a", "left")];
  assert.deepEqual(writes(both, undefined), ["shelf/left/a=a", "shelf/right/a=a"]);
  assert.deepEqual(writes(left, both), ["-shelf/right/a"]);
  assert.deepEqual(writes(both, left), ["shelf/right/a=a"]);
  assert.deepEqual(writes(thing("a", "up"), left), ["-shelf/left/a", "shelf/up/a=a"]);
  assert.deepEqual(writes(undefined, both), ["-shelf/left/a", "-shelf/right/a"]);
  assert.deepEqual(writes(changed(left, { note: "new" }), left), []);
  assert.deepEqual(writes(undefined, undefined), []);
});

test("rows are read from the log and the kv when a process died before it flushed", async () => {
  const world = new EngineWorld({ derive: countIndexKeys });
  const engine = await world.open();
  const [a, b, c] = [thing("a", "low"), thing("b", "low"), thing("c", "low")];
  engine.commit([a, b, c].map(added));
  await engine.flushNow();
  engine.commit([moved(a, "high"), removed(b)]);
  await engine.commit([added(thing("d", "low"))]).done;
  world.crash("process");
  const next = await world.open();
  assert.deepEqual(await shelves(next), ["shelf/high/a", "shelf/low/c", "shelf/low/d"]);
  assert.deepEqual(contents(world), await shelves(next));
  assert.equal(textOf(world.contents, "count"), "3");
});
