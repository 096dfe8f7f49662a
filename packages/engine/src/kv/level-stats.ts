/**
 * Statistics from LevelDB's own table of levels. Its sizes are whole mebibytes, and so are the derived ones.
 */
import type { KvStats } from "./kv.ts";

const mebibyte = 1024 * 1024;
/** LevelDB compacts level 0 when it has this many files, whatever their size. */
const level0FilesMax = 4;
/** Level 1 should have no more than this, each further level ten times as much. */
const level1Bytes = 10 * mebibyte;
/** The last level has no limit. */
const lastLevel = 6;

interface LevelRow {
  readonly files: number;
  readonly bytes: number;
  readonly seconds: number;
  readonly readBytes: number;
  readonly writeBytes: number;
}

export function levelStats(text: string): Omit<KvStats, "memoryBytes" | "cacheBytesMax"> {
  const levels = parseLevels(text);
  const total = (pick: (level: LevelRow, number: number) => number): number =>
    levels.reduce((sum, level, number) => sum + pick(level, number), 0);
  return {
    levels: levels.map(({ files, bytes }) => ({ files, bytes })),
    compactionSeconds: total((level) => level.seconds),
    compactionReadBytes: total((level) => level.readBytes),
    compactionWriteBytes: total((level) => level.writeBytes),
    // Files of level 0 overlap; below it, one file of a level may have the key.
    readAmplification: total(({ files }, number) => (number === 0 ? files : Math.min(files, 1))),
    compactionBacklogBytes: total(backlogBytes),
  };
}

function backlogBytes({ files, bytes }: LevelRow, number: number): number {
  if (number === 0) return files >= level0FilesMax ? bytes : 0;
  if (number >= lastLevel) return 0;
  return Math.max(0, bytes - level1Bytes * 10 ** (number - 1));
}

/** Level, files, size MB, seconds, read MB, written MB; a level without files may be missing. */
function parseLevels(text: string): LevelRow[] {
  const rows: LevelRow[] = [];
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

const emptyRow: LevelRow = { files: 0, bytes: 0, seconds: 0, readBytes: 0, writeBytes: 0 };
