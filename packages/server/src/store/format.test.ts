import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { acme, BrokerWorld, claim, umbrella } from "../../test/broker-world.ts";
import type { Broker } from "../broker/broker.ts";
import { checkFormat, writeFormat } from "./format.ts";
import { formatKey, idOf } from "./keys.ts";

interface Setup {
  readonly world: BrokerWorld;
  /** Starts and stops, or is killed, as the server does. */
  readonly start: (shards: number, end?: "kill") => Promise<void>;
}

async function setup(stored?: string): Promise<Setup> {
  const world = new BrokerWorld();
  if (stored !== undefined) world.contents.set(formatKey, Buffer.from(stored));
  const start = async (shards: number, end?: "kill"): Promise<void> => {
    const engine = await world.openEngine((get) => checkFormat(get, shards));
    await writeFormat(engine, shards);
    if (end === "kill") world.disk = world.disk.crash("process");
    else await engine[Symbol.asyncDispose]();
  };
  return { world, start };
}

test("the first start writes down what every later one finds", async () => {
  const { world, start } = await setup();
  await start(4);
  assert.equal(world.contents.get(formatKey)?.toString(), '{"version":2,"shards":4}');
  await start(4);
});

test("data of the first format is taken over, and an older server refuses it from then on", async () => {
  const { world, start } = await setup('{"version":1,"shards":1}');
  await start(1);
  assert.equal(world.contents.get(formatKey)?.toString(), '{"version":2,"shards":1}');
});

test("D23: another number of shards is refused, with the number to set and the way to change it", async () => {
  const { start } = await setup();
  await start(4);
  await assert.rejects(start(8), {
    code: "format",
    message: /shards=4.*shards=8.*move the tasks/s,
  });
  await assert.rejects(start(1), { code: "format" });
  await start(4);
});

test("D23: it is refused also when the first start was killed before it could flush", async () => {
  const { world, start } = await setup();
  await start(4, "kill");
  assert.equal(world.contents.get(formatKey), undefined);
  await assert.rejects(start(8), { code: "format" });
  assert.equal(world.contents.size, 0);
  world.disk = world.disk.crash("process");
  await start(4);
});

test("data of a newer version is refused, and says what to start", async () => {
  const { start } = await setup('{"version":3,"shards":1}');
  await assert.rejects(start(1), { code: "format", message: /version 3.*newer version of codeQ/s });
});

async function format1(): Promise<{ world: BrokerWorld; contents: Map<string, Buffer> }> {
  const file = join(import.meta.dirname, "../../test/format-1.json");
  const entries = Object.entries(JSON.parse(await readFile(file, "utf8")) as object);
  const contents = new Map(entries.map(([key, value]) => [key, Buffer.from(value as string)]));
  // The log begins anew.
  contents.delete("codeq/meta/position");
  return { world: new BrokerWorld({ contents }), contents };
}

/** Payload and result, as they are stored. */
function sizeOf(contents: ReadonlyMap<string, Buffer>, id: string): number {
  const [payload, result] = [
    contents.get(`codeq/payload/${id}`),
    contents.get(`codeq/results/${id}`),
  ];
  return (payload?.length ?? 0) + (result?.length ?? 0);
}

async function open(world: BrokerWorld): Promise<Broker> {
  const engine = await world.openEngine((get) => checkFormat(get, 1));
  await writeFormat(engine, 1);
  return world.openBroker(engine);
}

test("data of format 1 is upgraded: every task has its bytes, every tenant its total", async () => {
  const { world, contents } = await format1();
  const broker = await open(world);
  const ids = [...contents.keys()].filter((key) => key.startsWith("codeq/tasks/")).map(idOf);
  assert.equal(ids.length, 6);
  const totals = new Map<string, number>();
  for (const id of ids) {
    const task = broker.store.task(id);
    assert.ok(task !== undefined);
    assert.equal(task.storedBytes, sizeOf(contents, id));
    totals.set(task.tenantId, (totals.get(task.tenantId) ?? 0) + task.storedBytes);
  }
  for (const tenantId of [acme, umbrella]) {
    assert.equal(broker.storedBytes.of(tenantId), totals.get(tenantId));
  }
  assert.equal(broker.store.quarantined, 0);
  const places = ids.map((id) => broker.store.task(id)?.place.in);
  assert.deepEqual(places, ["ready", "delayed", "leased", "done", "dead", "ready"]);
  assert.deepEqual([...(await claim(broker))].length, 1);
  const again = await world.reopen(broker);
  assert.equal(world.contents.get(formatKey)?.toString(), '{"version":2,"shards":1}');
  assert.equal(again.storedBytes.of(acme), totals.get(acme));
});

test("an upgrade that was interrupted anywhere is completed by the next start", async () => {
  const { contents } = await format1();
  const total = [...contents.keys()]
    .filter((key) => /^codeq.(payload|results)/.test(key) && !key.includes("7005-b3dc"))
    .reduce((sum, key) => sum + (contents.get(key)?.length ?? 0), 0);
  for (let upgraded = 0; upgraded <= 6; upgraded += 1) {
    const { world } = await format1();
    const tasks = [...world.contents].filter(([key]) => key.startsWith("codeq/tasks/"));
    for (const [key, value] of tasks.slice(0, upgraded)) {
      const longer = value.toString().replace(/]$/, `,${sizeOf(contents, idOf(key))}]`);
      world.contents.set(key, Buffer.from(longer));
    }
    const broker = await open(world);
    assert.equal(broker.storedBytes.of(acme), total);
    assert.equal(broker.store.task(idOf(tasks[0]![0]))?.storedBytes, 29);
  }
});

test("a record of format 1 that cannot be read is left for the quarantine", async () => {
  const { world } = await format1();
  const [key] = [...world.contents.keys()].filter((each) => each.startsWith("codeq/tasks/"));
  world.contents.set(key!, Buffer.from("[1,2"));
  const broker = await open(world);
  assert.equal(broker.store.task(idOf(key!)), undefined);
  assert.equal(broker.store.quarantined, 1);
  assert.equal(broker.store.engine.getText(key!), "[1,2");
});

test("a format entry that cannot be read is a fault of the data, not a crash", async () => {
  for (const damaged of ["", "{", "null", "[]", '{"version":"x"}']) {
    const { start } = await setup(damaged);
    await assert.rejects(start(1), { code: "corrupt" }, damaged);
  }
});
