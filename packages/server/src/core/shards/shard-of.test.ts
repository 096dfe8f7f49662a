import assert from "node:assert/strict";
import { test } from "node:test";
import type { TaskId, TenantId } from "@codeq/queue";
import { SimRandom } from "@codeq/simulated";
import fc from "fast-check";
import { TaskIds } from "../task-ids.ts";
import { idsOfShard, shardOf, shardOfKey } from "./shard-of.ts";

/** FNV-1a, 64 bits, as it is published. */
function fnv1a(bytes: Uint8Array): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of bytes) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
  return hash;
}

/** Published test vectors of the hash. */
const vectors: readonly (readonly [text: string, hash: bigint])[] = [
  ["", 0xcbf29ce484222325n],
  ["a", 0xaf63dc4c8601ec8cn],
  ["b", 0xaf63df4c8601f1a5n],
  ["foobar", 0x85944171f73967e8n],
];

test("the shard of an id is FNV-1a modulo the number of shards", () => {
  for (const [text, hash] of vectors) {
    assert.equal(fnv1a(Buffer.from(text)), hash);
    for (let count = 1; count <= 64; count += 1) {
      assert.equal(
        shardOf(text as TaskId, count),
        Number(hash % BigInt(count)),
        `${text}/${count}`,
      );
    }
  }
  const ascii = fc.string({ unit: "binary-ascii" });
  fc.assert(
    fc.property(ascii, fc.integer({ min: 1, max: 64 }), (text, count) => {
      const expected = Number(fnv1a(Buffer.from(text, "latin1")) % BigInt(count));
      assert.equal(shardOf(text as TaskId, count), expected);
    }),
  );
});

test("ids drawn for a shard belong to it, are different and grow with time", () => {
  const random = new SimRandom(1);
  for (const count of [1, 2, 3, 8, 16, 64]) {
    for (let shard = 0; shard < count; shard += 1) {
      const ids = idsOfShard(new TaskIds((into) => random.bytes(into)), { shard, count });
      const drawn = Array.from({ length: 200 }, (_, at) => ids.next(1_700_000_000_000 + at));
      assert.ok(drawn.every((id) => shardOf(id, count) === shard));
      assert.equal(new Set(drawn).size, 200);
      assert.deepEqual([...drawn].sort(), drawn);
      assert.match(
        drawn[0] as string,
        /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
    }
  }
});

test("ids are shared out evenly", () => {
  const random = new SimRandom(2);
  const ids = new TaskIds((into) => random.bytes(into));
  const found = Array.from({ length: 8 }, () => 0);
  for (let at = 0; at < 8000; at += 1) {
    const shard = shardOf(ids.next(1_700_000_000_000 + at), 8);
    found[shard] = (found[shard] ?? 0) + 1;
  }
  for (const share of found) assert.ok(share > 800 && share < 1200, found.join(" "));
});

test("a key of a tenant has one shard, whatever it is made of", () => {
  const tenant = fc.string().map((text) => text as TenantId);
  fc.assert(
    fc.property(
      tenant,
      fc.string({ unit: "binary" }),
      fc.integer({ min: 1, max: 64 }),
      (of, key, count) => {
        const shard = shardOfKey(of, key, count);
        assert.ok(Number.isInteger(shard) && shard >= 0 && shard < count);
        assert.equal(shardOfKey(of, key, count), shard);
      },
    ),
  );
  const shards = new Set(
    Array.from({ length: 50 }, (_, at) => shardOfKey("a" as TenantId, `key-${at}`, 8)),
  );
  assert.equal(shards.size, 8);
});
