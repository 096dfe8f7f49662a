import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { positionKey } from "./flusher.ts";
import { storedPlaceOf } from "./follower.ts";
import { checksumBytes, seal } from "./kv/checked-value.ts";
import { MemoryKv } from "./kv/memory-kv.ts";
import { isInstalling, type SnapshotEnd, SnapshotReader, SnapshotWriter } from "./snapshot.ts";

const identity = 99;

function sealed(key: string, text: string): Buffer {
  const buffer = Buffer.alloc(text.length + checksumBytes);
  buffer.write(text, "latin1");
  seal(key, buffer, text.length);
  return buffer;
}

/** A node that is at slot 30. */
function filled(): Map<string, Buffer> {
  const entries = Array.from({ length: 4500 }, (_, at): [string, Buffer] => [
    `codeq/tasks/${String(at).padStart(5, "0")}`,
    Buffer.alloc(at % 300, at),
  ]);
  const position = sealed(positionKey, `12 ${identity} 30.2.7.0011223344556677`);
  return new Map([...entries, [positionKey, position]]);
}

async function piecesOf(
  contents: Map<string, Buffer>,
): Promise<{ readonly pieces: readonly Buffer[]; readonly end: SnapshotEnd }> {
  const reader = new SnapshotReader(new MemoryKv({ contents }));
  const pieces: Buffer[] = [];
  for (let piece = await reader.next(); piece !== undefined; piece = await reader.next()) {
    pieces.push(piece);
  }
  return { pieces, end: reader.end };
}

describe("a snapshot", () => {
  test("takes the place of everything that was there", async () => {
    const source = filled();
    const { pieces, end } = await piecesOf(source);
    assert.ok(pieces.length > 2);
    const contents = new Map([["codeq/tasks/old", Buffer.from("old")]]);
    const kv = new MemoryKv({ contents });
    const writer = await SnapshotWriter.begin(kv);
    for (const piece of pieces) await writer.add(piece);
    assert.equal(isInstalling(kv), true);
    await writer.finish(end, identity);
    assert.equal(isInstalling(kv), false);
    assert.deepEqual(new Map([...contents].sort()), new Map([...source].sort()));
    assert.equal(storedPlaceOf(kv).slot, 30);
  });

  test("is durable when it counts: a restart does not take it back", async () => {
    const { pieces, end } = await piecesOf(filled());
    const calls: string[] = [];
    const files = {
      noteWritten: async (index: number) => {
        calls.push(`written up to ${index}`);
        return 0;
      },
      makeDurable: async () => {
        calls.push("made durable");
        return 12;
      },
      reclaim: () => Promise.resolve(),
      scrub: () => Promise.resolve(),
    };
    const writer = await SnapshotWriter.begin(Object.assign(new MemoryKv(), { files }));
    for (const piece of pieces) await writer.add(piece);
    await writer.finish(end, identity);
    assert.deepEqual(calls, ["written up to 12", "made durable"]);
  });

  test("that was interrupted is known, and begun again from nothing", async () => {
    const { pieces, end } = await piecesOf(filled());
    const contents = filled();
    const kv = new MemoryKv({ contents });
    const writer = await SnapshotWriter.begin(kv);
    await writer.add(pieces[0] as Buffer);
    assert.equal(isInstalling(kv), true);
    assert.throws(() => new SnapshotReader(kv), { code: "behind" });
    const again = await SnapshotWriter.begin(kv);
    for (const piece of pieces) await again.add(piece);
    await again.finish(end, identity);
    assert.equal(isInstalling(kv), false);
    assert.equal(contents.size, 4501);
  });

  test("is refused when a piece is missing, changed, or of another log", async () => {
    const { pieces, end } = await piecesOf(filled());
    const changed = Buffer.from(pieces[1] as Buffer);
    changed[changed.length - 1] = (changed.at(-1) as number) ^ 1;
    const lots = [pieces.slice(1), [pieces[0] as Buffer, changed, ...pieces.slice(2)]];
    for (const given of lots) {
      const kv = new MemoryKv();
      const writer = await SnapshotWriter.begin(kv);
      for (const piece of given) await writer.add(piece);
      await assert.rejects(writer.finish(end, identity), { code: "storage_failed" });
      assert.equal(isInstalling(kv), true);
    }
    const kv = new MemoryKv();
    const writer = await SnapshotWriter.begin(kv);
    for (const piece of pieces) await writer.add(piece);
    await assert.rejects(writer.finish(end, identity + 1), { code: "corrupt" });
    assert.equal(isInstalling(kv), true);
  });

  test("is not made of a node that has nothing", () => {
    assert.throws(() => new SnapshotReader(new MemoryKv()), { code: "behind" });
  });
});
