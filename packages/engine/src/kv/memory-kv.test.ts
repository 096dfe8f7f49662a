import assert from "node:assert/strict";
import { test } from "node:test";
import { kvContract, putOf, read } from "../../test/kv-contract.ts";
import { MemoryKv } from "./memory-kv.ts";

function setup(): { contents: Map<string, Buffer>; kv: MemoryKv } {
  const contents = new Map<string, Buffer>();
  return { contents, kv: new MemoryKv({ contents }) };
}

kvContract("MemoryKv", async () => {
  const { contents, kv } = setup();
  return { kv, reopen: async () => new MemoryKv({ contents }) };
});

test("a batch that a simulated disk refuses changes nothing, one that it holds comes later", async () => {
  const contents = new Map<string, Buffer>();
  const gates = [Promise.reject(new Error("refused")), Promise.resolve()];
  const kv = new MemoryKv({ contents, beforeWrite: () => gates.shift() ?? Promise.resolve() });
  await assert.rejects(kv.write([putOf("a", "1")]), /refused/);
  assert.equal(kv.get("a"), undefined);
  await kv.write([putOf("a", "2")]);
  assert.deepEqual(await read(kv, { after: "", before: "~" }), [["a", "2"]]);
});
