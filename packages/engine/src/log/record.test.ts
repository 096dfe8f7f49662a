import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { frameOf } from "../../test/log-contract.ts";
import { chainAfter, chainStart, checksumMatches, decodeHeader, sealRecord } from "./record.ts";

const header = {
  type: 1,
  shard: 0x0203,
  opCount: 0x04050607,
  bodyBytes: 5,
  epoch: 2 ** 33 + 1,
  index: Number.MAX_SAFE_INTEGER,
  chain: Buffer.from("0102030405060708", "hex"),
  writer: 2 ** 32 - 1,
  timeMs: 1_700_000_000_123,
  unsyncedBefore: 7,
};

test("a header comes back as it was sealed", () => {
  const { buffer } = frameOf("hello");
  sealRecord(buffer, header);
  assert.deepEqual(decodeHeader(buffer, 0), { version: 1, ...header });
  assert.ok(checksumMatches(buffer, 0));
});

test("the bytes of a header do not change between versions of the server", () => {
  const { buffer } = frameOf("hello");
  sealRecord(buffer, header);
  const expected =
    "63716c67" + // magic
    "01" + // version
    "01" + // type
    "0302" + // shard
    "07060504" + // operations
    "05000000" + // body bytes
    "0100000002000000" + // epoch
    "ffffffffffff1f00" + // index
    "0102030405060708" + // chain
    "ffffffff00000000" + // writer
    "7b68e5cf8b010000" + // time
    "00000000" + // checksum, computed below
    "07000000"; // unsynced records before this one
  const plain = Buffer.concat([Buffer.from(expected, "hex"), Buffer.from("hello")]);
  plain.writeUInt32LE(crc32(plain), 56);
  assert.equal(buffer.subarray(0, 69).toString("hex"), plain.toString("hex"));
  assert.deepEqual(buffer.subarray(69), Buffer.alloc(128 - 69));
});

test("the chain is the start of the SHA-256 of the header before", () => {
  const { buffer } = frameOf("hello");
  sealRecord(buffer, header);
  const digest = createHash("sha256").update(buffer.subarray(0, 64)).digest();
  assert.deepEqual(chainAfter(buffer.subarray(0, 64)), digest.subarray(0, 8));
  assert.deepEqual(chainStart, Buffer.alloc(8));
});
