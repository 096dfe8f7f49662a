import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { NodeDisk } from "../disk/node-disk.ts";
import { headerBytes } from "./log.ts";
import { chainStart, frameBytes, sealRecord } from "./record.ts";
import { inspectSegment, segmentName } from "./segment.ts";

const mebibyte = 1024 * 1024;
const name = segmentName(1);

function record(index: number, body: string): Buffer {
  const bodyBytes = Buffer.byteLength(body);
  const buffer = Buffer.alloc(frameBytes(bodyBytes));
  buffer.write(body, headerBytes);
  const identity = { type: 0, shard: 0, epoch: 1, writer: 1, timeMs: 0, unsyncedBefore: 0 };
  sealRecord(buffer, { ...identity, index, opCount: 1, bodyBytes, chain: chainStart });
  return buffer;
}

function setup(
  t: TestContext,
  records: readonly (readonly [offset: number, Buffer])[],
): Promise<NodeDisk> {
  const directory = mkdtempSync(join(tmpdir(), "codeq-segment-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const bytes = Buffer.alloc(5 * mebibyte);
  for (const [offset, buffer] of records) buffer.copy(bytes, offset);
  writeFileSync(join(directory, name), bytes);
  return NodeDisk.open(directory);
}

test("records between long empty parts are found, and stay as they are when the walk goes on", async (t) => {
  const offsets = [0, 1.5 * mebibyte, 3 * mebibyte, 5 * mebibyte - 4096];
  const disk = await setup(
    t,
    offsets.map((offset, at) => [offset, record(at + 1, `body ${at}`)]),
  );
  const found: { readonly offset: number; readonly body: Buffer; readonly chain: Uint8Array }[] =
    [];
  for await (const entry of inspectSegment(disk, name)) {
    if (!entry.ok) assert.equal(entry.reason, "empty");
    else found.push({ offset: entry.offset, body: entry.body, chain: entry.header.chain });
  }
  assert.deepEqual(
    found.map(({ offset, body }) => [offset, body.toString()]),
    offsets.map((offset, at) => [offset, `body ${at}`]),
  );
  for (const { chain } of found) assert.deepEqual(Buffer.from(chain), Buffer.from(chainStart));
});
