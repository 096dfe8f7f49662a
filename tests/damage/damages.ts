/** What can happen to a file, or to a whole folder, of a data directory that no server has open. */
import {
  copyFileSync,
  existsSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { copyDirectory, filesBelow, type Prepared } from "./prepare.ts";

export interface Damage {
  readonly name: string;
  /** False when it cannot happen here. */
  readonly apply: (directory: string) => boolean;
}

/** Every damage of every file, then those of folders. */
export function damagesOf(subject: Prepared, other: Prepared): Damage[] {
  const files = filesBelow(subject.directory).flatMap((file) => ofFile(file, subject, other));
  const folders = ["kv", "log"].flatMap((folder) => ofFolder(folder, subject, other));
  return [...files, ...folders];
}

function ofFile(file: string, subject: Prepared, other: Prepared): Damage[] {
  const flip = (where: string, share: number): Damage => ({
    name: `${file}: a bit flipped at the ${where}`,
    apply: (directory) =>
      edit(join(directory, file), (bytes, end) => {
        let at = Math.min(Math.floor(end * share), end - 1);
        // The padding behind a record is zeros, and nobody reads it.
        while (at < end - 1 && bytes[at] === 0) at += 1;
        bytes[at] = (bytes[at] as number) ^ 4;
      }),
  });
  const replaced = (what: string, by: string): Damage => ({
    name: `${file}: replaced by ${what}`,
    apply: (directory) => {
      if (!existsSync(join(by, file))) return false;
      copyFileSync(join(by, file), join(directory, file));
      return true;
    },
  });
  return [
    flip("start", 0),
    flip("middle", 0.5),
    flip("end", 1),
    {
      name: `${file}: cut in the middle`,
      apply: (directory) => {
        const path = join(directory, file);
        const end = usedBytes(readFileSync(path));
        if (end > 1) truncateSync(path, Math.floor(end / 2));
        return end > 1;
      },
    },
    {
      name: `${file}: deleted`,
      apply: (directory) => {
        rmSync(join(directory, file));
        return true;
      },
    },
    {
      name: `${file}: full of zeros`,
      apply: (directory) => {
        const path = join(directory, file);
        writeFileSync(path, Buffer.alloc(statSync(path).size));
        return true;
      },
    },
    replaced("an older copy", subject.older),
    replaced("that of another server", other.directory),
  ];
}

function ofFolder(folder: string, subject: Prepared, other: Prepared): Damage[] {
  const replaced = (what: string, by: string): Damage => ({
    name: `${folder}: replaced by ${what}`,
    apply: (directory) => {
      rmSync(join(directory, folder), { recursive: true });
      copyDirectory(join(by, folder), join(directory, folder));
      return true;
    },
  });
  return [
    {
      name: `${folder}: deleted`,
      apply: (directory) => {
        rmSync(join(directory, folder), { recursive: true });
        return true;
      },
    },
    replaced("an older copy", subject.older),
    replaced("that of another server", other.directory),
  ];
}

function edit(path: string, change: (bytes: Buffer, end: number) => void): boolean {
  const bytes = readFileSync(path);
  const end = usedBytes(bytes);
  if (end === 0) return false;
  change(bytes, end);
  writeFileSync(path, bytes);
  return true;
}

/** Files are prepared in advance; damage behind what is used of them says nothing. */
function usedBytes(bytes: Buffer): number {
  let end = bytes.length;
  while (end > 0 && bytes[end - 1] === 0) end -= 1;
  return end;
}
