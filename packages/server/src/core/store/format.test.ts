import assert from "node:assert/strict";
import { test } from "node:test";
import { sealed, textOf } from "../../../../engine/test/sealed.ts";
import { BrokerWorld } from "../../../test/broker-world.ts";
import { formatKey } from "./keys.ts";

interface Setup {
  readonly world: BrokerWorld;
  /** Starts and stops, or is killed, as the server does. */
  readonly start: (shards: number, end?: "kill") => Promise<void>;
}

async function setup(stored?: string): Promise<Setup> {
  const world = new BrokerWorld();
  if (stored !== undefined) world.contents.set(formatKey, sealed(formatKey, stored));
  const start = async (shards: number, end?: "kill"): Promise<void> => {
    const store = await world.openStore(shards);
    if (end === "kill") world.disk = world.disk.crash("process");
    else await store[Symbol.asyncDispose]();
  };
  return { world, start };
}

test("the first start writes down what every later one finds", async () => {
  const { world, start } = await setup();
  await start(4);
  assert.equal(textOf(world.contents, formatKey), '{"version":11,"shards":4}');
  await start(4);
});

test("D23: another number of shards is refused, with the number to set and the way to change it", async () => {
  const { start } = await setup();
  await start(4);
  await assert.rejects(start(8), {
    code: "format",
    message: /shards=4.*shards=8.*Set shards to 4.*shards migrate --to 8/s,
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

test("data of another version is refused as it is, and says what to start", async () => {
  for (const version of [1, 2, 3, 4, 5, 6, 7, 8, 9]) {
    const stored = `{"version":${version},"shards":1}`;
    const { world, start } = await setup(stored);
    const message = new RegExp(
      `version ${version}.*reads 11.*version of codeQ that wrote the data`,
      "s",
    );
    await assert.rejects(start(1), { code: "format", message });
    assert.deepEqual([...world.contents], [[formatKey, sealed(formatKey, stored)]]);
  }
});

test("a format entry that cannot be read is a fault of the data, not a crash", async () => {
  for (const damaged of ["", "{", "null", "[]", '{"version":"x"}']) {
    const { start } = await setup(damaged);
    await assert.rejects(start(1), { code: "corrupt" }, damaged);
  }
});
