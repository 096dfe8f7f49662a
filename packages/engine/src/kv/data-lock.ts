/**
 * The lock of a data directory, held by the operating system for as long as the process lives. It is
 * taken before any file is read: a second process without the lock could remove files that are in use.
 *
 * Node has no file locks. LevelDB has, so an empty database in a folder of its own is the lock, and
 * nothing that it keeps there is ever read: all but the locked file itself is removed before it opens.
 */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ClassicLevel } from "classic-level";
import { FaultError, isDiskFull } from "../fault.ts";

const folder = "lock";
/** Two processes that begin at once may remove each other's files before one has the lock. */
const triesMax = 5;

export class DataLock implements AsyncDisposable {
  readonly #database: ClassicLevel;

  private constructor(database: ClassicLevel) {
    this.#database = database;
  }

  /** Throws `locked` when another process has the directory. */
  static async take(dataDirectory: string): Promise<DataLock> {
    const directory = join(dataDirectory, folder);
    for (let tries = 1; ; tries += 1) {
      try {
        mkdirSync(directory, { recursive: true });
        for (const name of readdirSync(directory)) {
          if (name !== "LOCK") rmSync(join(directory, name), { force: true, recursive: true });
        }
        const database = new ClassicLevel(directory, { passive: false } as object);
        await database.open();
        return new DataLock(database);
      } catch (error) {
        const fault = asFault(error);
        if (fault.code !== "storage_failed" || tries === triesMax) throw fault;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#database.close();
  }
}

function asFault(error: unknown): FaultError {
  const { cause, message } = error as {
    cause?: { code?: string; message?: string };
    message: string;
  };
  const text = `${message} ${cause?.message ?? ""}`;
  if (cause?.code === "LEVEL_LOCKED" || /lock .*(held|temporarily)/i.test(text)) {
    return new FaultError("locked", "the data directory is in use by another process", error);
  }
  if (isDiskFull(error) || text.includes("No space left")) {
    return new FaultError("disk_full", "there is no room left to lock the data directory", error);
  }
  return new FaultError("storage_failed", `locking the data directory failed: ${text}`, error);
}
