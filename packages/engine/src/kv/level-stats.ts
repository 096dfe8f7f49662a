/**
 * Statistics from LevelDB's own table of levels. Its sizes are whole mebibytes, and so are the derived ones.
 */
import type { KvLevel, KvStats } from "./kv.ts";

const mebibyte = 1024 * 1024;
/** LevelDB compacts level 0 when it has this many files, whatever their size. */
const level0FilesMax = 4;
/** Level 1 should have no more than this, each further level ten times as much. */
const level1Bytes = 10 * mebibyte;
/** The last level has no limit. */
const lastLevel = 6;

export function levelStats(
  text: string,
): Pick<KvStats, "levels" | "readAmplification" | "compactionBacklogBytes"> {
  const levels = parseLevels(text);
  const total = (pick: (level: KvLevel, number: number) => number): number =>
    levels.reduce((sum, level, number) => sum + pick(level, number), 0);
  return {
    levels,
    // Files of level 0 overlap; below it, one file of a level may have the key.
    readAmplification: total(({ files }, number) => (number === 0 ? files : Math.min(files, 1))),
    compactionBacklogBytes: total(backlogBytes),
  };
}

/** The levels with what compactions did before the store was reopened. */
export function withPast(levels: readonly KvLevel[], past: readonly KvLevel[]): KvLevel[] {
  return Array.from({ length: Math.max(levels.length, past.length) }, (_, number) => {
    const now = levels[number] ?? emptyRow;
    const before = past[number] ?? emptyRow;
    return {
      ...now,
      seconds: now.seconds + before.seconds,
      readBytes: now.readBytes + before.readBytes,
      writeBytes: now.writeBytes + before.writeBytes,
    };
  });
}

function backlogBytes({ files, bytes }: KvLevel, number: number): number {
  if (number === 0) return files >= level0FilesMax ? bytes : 0;
  if (number >= lastLevel) return 0;
  return Math.max(0, bytes - level1Bytes * 10 ** (number - 1));
}

/** Level, files, size MB, seconds, read MB, written MB; a level without files may be missing. */
function parseLevels(text: string): KvLevel[] {
  const rows: KvLevel[] = [];
  for (const line of text.split("\n")) {
    const cells = line.trim().split(/\s+/).map(Number);
    if (cells.length !== 6 || cells.some(Number.isNaN)) continue;
    const [level, files, size, seconds, read, write] = cells as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    rows[level] = {
      files,
      bytes: size * mebibyte,
      seconds,
      readBytes: read * mebibyte,
      writeBytes: write * mebibyte,
    };
  }
  return Array.from(rows, (row) => row ?? emptyRow);
}

const emptyRow: KvLevel = { files: 0, bytes: 0, seconds: 0, readBytes: 0, writeBytes: 0 };
