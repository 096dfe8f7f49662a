/**
 * What every `Disk` does, written as tests. The simulated disk is worth something only as long as
 * it passes the same suite as the real one.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Disk, DiskDone } from "../src/disk/disk.ts";

export function diskContract(name: string, open: () => Promise<Disk>): void {
  describe(`${name} is a Disk`, () => {
    describeContent(open);
    describeSyncs(open);
    describeNames(open);
    describeRefusals(open);
  });
}

function describeContent(open: () => Promise<Disk>): void {
  test("what was written is read back, at its position", async () => {
    const file = await (await open()).open("a", { create: true });
    await file.write(Buffer.from("hello"), 0);
    await file.write(Buffer.from("J"), 0);
    await file.sync();
    assert.equal((await file.read(0, 5)).toString(), "Jello");
    assert.equal((await file.read(1, 3)).toString(), "ell");
    assert.equal((await file.read(1, 3, Buffer.alloc(9))).toString(), "ell");
    assert.equal(await file.size(), 5);
    await file.close();
  });

  test("a read stops at the end of the file", async () => {
    const file = await (await open()).open("a", { create: true });
    await file.write(Buffer.from("abc"), 0);
    assert.equal((await file.read(2, 10)).toString(), "c");
    assert.equal((await file.read(2, 10, Buffer.alloc(10))).toString(), "c");
    assert.equal((await file.read(3, 10)).length, 0);
    assert.equal((await file.read(99, 10)).length, 0);
    await file.close();
  });

  test("a hole left between two writes reads as zeros", async () => {
    const file = await (await open()).open("a", { create: true });
    await file.write(Buffer.from("x"), 3);
    assert.deepEqual(await file.read(0, 9), Buffer.from([0, 0, 0, 0x78]));
    await file.close();
  });

  test("a second handle sees what the first one wrote", async () => {
    const disk = await open();
    const writer = await disk.open("a", { create: true });
    const reader = await disk.open("a");
    await writer.write(Buffer.from("now"), 0);
    assert.equal((await reader.read(0, 9)).toString(), "now");
    await writer.close();
    await reader.close();
  });
}

function describeSyncs(open: () => Promise<Disk>): void {
  test("syncs may overlap, with each other and with writes, through one handle or several", async () => {
    const disk = await open();
    const one = await disk.open("a", { create: true });
    const other = await disk.open("a");
    const syncs: Promise<void>[] = [];
    for (const [at, text] of ["abc", "def", "ghi", "jkl"].entries()) {
      const file = at % 2 === 0 ? one : other;
      await file.write(Buffer.from(text), at * 3);
      syncs.push(file.sync(), one.sync());
    }
    await Promise.all(syncs);
    assert.equal((await other.read(0, 99)).toString(), "abcdefghijkl");
    await one.close();
    await other.close();
  });

  test("a write and a sync tell their end by calling back, once", async () => {
    const file = await (await open()).open("a", { create: true });
    const ends: string[] = [];
    await new Promise<void>((resolve) => {
      file.writeThen(Buffer.from("first"), 0, (written) => {
        ends.push(`written ${written}`);
        file.syncThen((synced) => {
          ends.push(`synced ${synced}`);
          resolve();
        });
      });
    });
    await file.sync();
    assert.deepEqual(ends, ["written null", "synced null"]);
    assert.equal((await file.read(0, 99)).toString(), "first");
    await file.close();
  });
}

function describeNames(open: () => Promise<Disk>): void {
  test("files are listed in order, renamed over others, and removed", async () => {
    const disk = await open();
    for (const name of ["b", "c", "a"]) {
      const file = await disk.open(name, { create: true });
      await file.write(Buffer.from(name), 0);
      await file.close();
    }
    assert.deepEqual(await disk.list(), ["a", "b", "c"]);
    await disk.rename("a", "b");
    await disk.remove("c");
    await disk.syncDirectory();
    assert.deepEqual(await disk.list(), ["b"]);
    const file = await disk.open("b");
    assert.equal((await file.read(0, 9)).toString(), "a");
    await file.close();
  });

  test("opening with create keeps what an existing file holds", async () => {
    const disk = await open();
    const first = await disk.open("a", { create: true });
    await first.write(Buffer.from("kept"), 0);
    await first.close();
    const second = await disk.open("a", { create: true });
    assert.equal((await second.read(0, 9)).toString(), "kept");
    await second.close();
  });

  test("free space is a number above zero", async () => {
    assert.ok((await (await open()).freeBytes()) > 0);
  });
}

function describeRefusals(open: () => Promise<Disk>): void {
  test("a missing file cannot be opened, renamed or removed", async () => {
    const disk = await open();
    await assert.rejects(disk.open("none"), { code: "ENOENT" });
    await assert.rejects(disk.rename("none", "other"), { code: "ENOENT" });
    await assert.rejects(disk.remove("none"), { code: "ENOENT" });
  });

  test("a closed file refuses every call", async () => {
    const file = await (await open()).open("a", { create: true });
    await file.close();
    await assert.rejects(file.write(Buffer.from("x"), 0), { code: "EBADF" });
    await assert.rejects(file.read(0, 1), { code: "EBADF" });
    await assert.rejects(file.size(), { code: "EBADF" });
    await assert.rejects(file.sync(), { code: "EBADF" });
    await assert.rejects(file.close(), { code: "EBADF" });
    const end = (start: (done: DiskDone) => void): Promise<unknown> => new Promise(start);
    for (const error of [
      await end((done) => file.writeThen(Buffer.from("x"), 0, done)),
      await end((done) => file.syncThen(done)),
    ]) {
      assert.equal((error as { code?: string }).code, "EBADF");
    }
  });
}
