import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { positionKey } from "./flusher.ts";
import { logPositionOf } from "./follower.ts";
import { install, snapshotOf } from "./image.ts";
import { checksumBytes, seal } from "./kv/checked-value.ts";
import { MemoryKv } from "./kv/memory-kv.ts";

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

async function piecesOf(contents: Map<string, Buffer>): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = [];
  for await (const piece of snapshotOf(new MemoryKv({ contents }))) pieces.push(piece);
  return pieces;
}

/** A copy that hands out these pieces, and then does something else. */
function copyOf(pieces: readonly Buffer[], then = (): void => {}): Copy {
  return async (take) => {
    for (const piece of pieces) await take(piece);
    then();
  };
}

type Copy = Parameters<typeof install>[0]["copy"];

/** A log that no longer has slot 31, which a node at slot 30 needs. */
function installed(kv: MemoryKv, copy: Copy, logId = identity): Promise<void> {
  return install({ kv, shared: { logId, bounds: async () => ({ first: 32, last: 40 }) }, copy });
}

/** The mark is there. */
function isInstalling(kv: MemoryKv): boolean {
  return kv.get("codeq/meta/installing") !== undefined;
}

describe("a snapshot", () => {
  test("takes the place of everything that was there", async () => {
    const source = filled();
    const pieces = await piecesOf(source);
    assert.ok(pieces.length > 2);
    const contents = new Map([["codeq/tasks/old", Buffer.from("old")]]);
    const kv = new MemoryKv({ contents });
    const stillInstalling = (): void => assert.equal(isInstalling(kv), true);
    await installed(kv, copyOf(pieces, stillInstalling));
    assert.equal(isInstalling(kv), false);
    assert.deepEqual(new Map([...contents].sort()), new Map([...source].sort()));
    assert.equal(logPositionOf(kv).slot, 30);
  });

  test("is durable when it counts: a restart does not take it back", async () => {
    const pieces = await piecesOf(filled());
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
    const kv = Object.assign(new MemoryKv(), { files });
    await installed(kv, copyOf(pieces));
    assert.deepEqual(calls, ["written up to 12", "made durable"]);
  });

  test("that was interrupted is known, and begun again from nothing", async () => {
    const pieces = await piecesOf(filled());
    const contents = filled();
    const kv = new MemoryKv({ contents });
    const gone = new Error("the other node went away");
    const cut = copyOf(pieces.slice(0, 2), () => {
      throw gone;
    });
    await assert.rejects(installed(kv, cut), gone);
    assert.equal(isInstalling(kv), true);
    assert.throws(() => snapshotOf(kv), { code: "behind" });
    await installed(kv, copyOf(pieces));
    assert.equal(isInstalling(kv), false);
    assert.equal(contents.size, 4501);
  });

  test("is refused when a piece is missing, changed, or of another log", async () => {
    const pieces = await piecesOf(filled());
    const changed = Buffer.from(pieces[1] as Buffer);
    changed[changed.length - 1] = (changed.at(-1) as number) ^ 1;
    const lots = [
      pieces.slice(1),
      pieces.slice(0, -1),
      pieces.toSpliced(2, 1),
      [pieces[0] as Buffer, changed, ...pieces.slice(2)],
    ];
    for (const given of lots) {
      const kv = new MemoryKv();
      await assert.rejects(installed(kv, copyOf(given)), { code: "storage_failed" });
      assert.equal(isInstalling(kv), true);
    }
    const kv = new MemoryKv();
    await assert.rejects(installed(kv, copyOf(pieces), identity + 1), { code: "corrupt" });
    assert.equal(isInstalling(kv), true);
  });

  test("is not made of a node that has nothing", () => {
    assert.throws(() => snapshotOf(new MemoryKv()), { code: "behind" });
  });
});
