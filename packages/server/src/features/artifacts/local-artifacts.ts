/**
 * Artifacts as files: `results/<task>/<upload>/<name>` in one directory, readable only by their owner. A
 * name is one path segment, so a file can neither leave the directory nor replace another one. Files and the
 * directories that contain them are synced before they are announced.
 */
import { createReadStream, existsSync, fsync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm, rmdir, stat, statfs } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { FaultError } from "@codeq/engine";
import type { TaskId } from "@codeq/queue";
import type { Config } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import {
  ArtifactFault,
  type ArtifactKey,
  type ArtifactProvider,
  type ByteRange,
  type ListedArtifact,
} from "./artifact-provider.ts";

/** Opens the artifact store that the configuration names. The code for S3 is loaded only when it is used. */
export async function openArtifactProvider(
  settings: Config,
  clock: Clock,
): Promise<ArtifactProvider> {
  if (settings.artifactProvider === "local") return new LocalArtifacts(settings);
  const { S3Artifacts } = await import("./s3-artifacts.ts");
  return new S3Artifacts(settings, clock);
}

/** After so many bytes of all uploads, the free space is looked at again. */
const checkedBytes = 4 * 1024 * 1024;

export class LocalArtifacts implements ArtifactProvider {
  /** The directory belongs to one server. */
  readonly collectAfterMs = 0;
  readonly #directory: string;
  readonly #minFreeBytes: number;
  /** Undefined until it was checked. */
  #hasFiles: boolean | undefined;
  /** What was written since the free space was looked at. */
  #uncheckedBytes = Number.POSITIVE_INFINITY;

  constructor({
    localArtifactsDir,
    minFreeDiskBytes,
  }: Pick<Config, "localArtifactsDir" | "minFreeDiskBytes">) {
    this.#directory = join(resolve(localArtifactsDir), "results");
    this.#minFreeBytes = minFreeDiskBytes;
  }

  async put(key: ArtifactKey, content: AsyncIterable<Uint8Array>): Promise<void> {
    const ofTask = join(this.#directory, key.id);
    const ofUpload = join(ofTask, key.upload);
    this.#hasFiles = true;
    try {
      await mkdir(ofUpload, { recursive: true, mode: 0o700 });
      await writeSynced(join(ofUpload, key.name), this.#withinReserve(content));
      // A new name is durable when its directory is synced.
      for (const each of [ofUpload, ofTask, this.#directory]) await syncDirectory(each);
    } catch (error) {
      await rm(ofUpload, { recursive: true, force: true }).catch(() => {});
      throw faultOf(error);
    }
  }

  /** The room in which tasks can end on a full disk is not for files. */
  async *#withinReserve(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of content) {
      this.#uncheckedBytes += piece.length;
      if (this.#minFreeBytes > 0 && this.#uncheckedBytes >= checkedBytes) await this.#checkRoom();
      yield piece;
    }
  }

  async #checkRoom(): Promise<void> {
    this.#uncheckedBytes = 0;
    const { bavail, bsize } = await statfs(this.#directory);
    const freeBytes = bavail * bsize;
    if (freeBytes >= this.#minFreeBytes + checkedBytes) return;
    this.#uncheckedBytes = Number.POSITIVE_INFINITY;
    const text = `the disk is nearly full: ${freeBytes} bytes are free, and minFreeDiskBytes keeps ${this.#minFreeBytes}`;
    throw new FaultError("disk_full", text);
  }

  async open(key: ArtifactKey, { from, to }: ByteRange): Promise<Readable | undefined> {
    const path = this.#pathOf(key);
    const isThere = await stat(path).then(
      (found) => found.isFile(),
      () => false,
    );
    if (!isThere) return undefined;
    return to < from ? Readable.from([]) : createReadStream(path, { start: from, end: to });
  }

  link(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async remove(keys: readonly ArtifactKey[]): Promise<void> {
    const options = { recursive: true, force: true };
    const paths = keys.map(({ id, upload }) => join(this.#directory, id, upload));
    await Promise.all(paths.map((path) => rm(path, options)));
  }

  /** Does nothing if no file was ever stored. */
  removalOf(ids: readonly TaskId[]): () => Promise<void> {
    return async () => {
      // The directory is never removed once it exists; until then another thread may create it.
      this.#hasFiles ||= existsSync(this.#directory);
      if (!this.#hasFiles) return;
      const options = { recursive: true, force: true };
      await Promise.all(ids.map((id) => rm(join(this.#directory, id), options)));
    };
  }

  async *list(): AsyncGenerator<ListedArtifact> {
    for (const id of await namesIn(this.#directory)) {
      for (const upload of await namesIn(join(this.#directory, id))) {
        const [name = ""] = await namesIn(join(this.#directory, id, upload));
        yield { key: { id: id as TaskId, upload, name }, storedMs: 0 };
      }
    }
  }

  /** Removes the directories of tasks without files. */
  async sweep(): Promise<void> {
    for (const id of await namesIn(this.#directory)) {
      const directory = join(this.#directory, id);
      // A directory that is not empty stays.
      if ((await namesIn(directory)).length === 0) await rmdir(directory).catch(() => {});
    }
  }

  #pathOf({ id, upload, name }: ArtifactKey): string {
    return join(this.#directory, id, upload, name);
  }
}

async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw error;
  }
}

async function writeSynced(path: string, content: AsyncIterable<Uint8Array>): Promise<void> {
  await using file = await open(path, "wx", 0o600);
  for await (const piece of content) await writeWhole(file, piece);
  await sync(file);
}

async function writeWhole(file: FileHandle, piece: Uint8Array): Promise<void> {
  for (let at = 0; at < piece.length; ) {
    const { bytesWritten } = await file.write(piece, at, piece.length - at);
    at += bytesWritten;
  }
}

async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, "r");
  await sync(directory);
}

function sync({ fd }: FileHandle): Promise<void> {
  return promisify(fsync)(fd);
}

function faultOf(error: unknown): unknown {
  const { code } = error as { code?: string };
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new FaultError("disk_full", "the disk has no space left for an artifact", error);
  }
  if (code === "EMFILE" || code === "ENFILE") {
    return new ArtifactFault("too many files are open; try again", true, error);
  }
  return error;
}
