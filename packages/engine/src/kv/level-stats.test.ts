import assert from "node:assert/strict";
import { test } from "node:test";
import { levelStats } from "./level-stats.ts";

const mebibyte = 1024 * 1024;

/** As LevelDB writes it, with a row for each level that has files or was compacted. */
function table(...rows: readonly string[]): string {
  return [
    "                               Compactions",
    "Level  Files Size(MB) Time(sec) Read(MB) Write(MB)",
    "--------------------------------------------------",
    ...rows,
    "",
  ].join("\n");
}

test("an empty store has nothing to read and nothing to do", () => {
  const stats = levelStats(table());
  assert.deepEqual(stats, {
    levels: [],
    readAmplification: 0,
    compactionBacklogBytes: 0,
  });
  assert.deepEqual(levelStats(""), stats);
});

test("a level that is missing in the table is empty", () => {
  const stats = levelStats(
    table("  0        1        2         1        0         2", "  2  5 9 3 4 6"),
  );
  assert.deepEqual(stats.levels, [
    { files: 1, bytes: 2 * mebibyte, seconds: 1, readBytes: 0, writeBytes: 2 * mebibyte },
    { files: 0, bytes: 0, seconds: 0, readBytes: 0, writeBytes: 0 },
    {
      files: 5,
      bytes: 9 * mebibyte,
      seconds: 3,
      readBytes: 4 * mebibyte,
      writeBytes: 6 * mebibyte,
    },
  ]);
});

test("a read may meet every file of level 0 and one of each other level", () => {
  const stats = levelStats(table("0 3 1 0 0 0", "1 7 9 0 0 0", "3 900 50 0 0 0"));
  assert.equal(stats.readAmplification, 3 + 1 + 1);
});

test("level 0 is behind from its fourth file on", () => {
  const bytesOf = (files: number): number =>
    levelStats(table(`0 ${files} 20 0 0 0`)).compactionBacklogBytes;
  assert.equal(bytesOf(3), 0);
  assert.equal(bytesOf(4), 20 * mebibyte);
});

test("another level is behind by what it has beyond its size, and the last one never", () => {
  const bytesOf = (level: number, size: number): number =>
    levelStats(table(`${level} 9 ${size} 0 0 0`)).compactionBacklogBytes / mebibyte;
  assert.equal(bytesOf(1, 10), 0);
  assert.equal(bytesOf(1, 11), 1);
  assert.equal(bytesOf(2, 100), 0);
  assert.equal(bytesOf(2, 130), 30);
  assert.equal(bytesOf(5, 100_001), 1);
  assert.equal(bytesOf(6, 5_000_000), 0);
});
