/**
 * Loads the native part of the storage. A file beside the executable comes first, for systems on which
 * nothing that was written may be run. Otherwise the one inside is written to the folder for temporary
 * files, loaded and removed.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { getRawAsset } from "node:sea";

const name = "classic-level.node";

export function loadNativePart(): unknown {
  const beside = join(dirname(process.execPath), name);
  return existsSync(beside) ? load(beside) : loadFromInside();
}

function load(path: string): unknown {
  const module = { exports: {} };
  process.dlopen(module, path, constants.dlopen.RTLD_NOW);
  return module.exports;
}

function loadFromInside(): unknown {
  let directory: string | undefined;
  try {
    directory = mkdtempSync(join(tmpdir(), "codeq-"));
    const path = join(directory, name);
    writeFileSync(path, new Uint8Array(getRawAsset(name)), { mode: 0o700 });
    return load(path);
  } catch (error) {
    throw new Error(
      `the storage library cannot be loaded from ${tmpdir()}: ${(error as Error).message}. ` +
        `Set TMPDIR to a folder in which files may be written and run, or put ${name} ` +
        "beside the executable.",
      { cause: error },
    );
  } finally {
    if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
  }
}
