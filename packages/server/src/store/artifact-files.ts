/**
 * Files that workers send along with a result: `results/<task>/<name>` below one directory. A name is
 * one path segment, so a file can neither leave the directory nor replace another task's. They are on
 * the disk before their result is acknowledged, and go with their task.
 */
import { existsSync, fsync } from "node:fs";
import { type FileHandle, mkdir, open, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import type { Artifact, TaskId } from "@codeq/queue";

export interface ArtifactFile {
  readonly name: string;
  /** Passed through when it is given. */
  readonly url: string;
  readonly contentBase64: string;
}

type Stored =
  | { readonly ok: true; readonly value: readonly Artifact[] }
  | { readonly ok: false; readonly code: "invalid_argument"; readonly text: string };

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

export class ArtifactFiles {
  readonly #directory: string;
  /** Undefined until somebody wanted to know. */
  #hasFiles: boolean | undefined;

  constructor(directory: string) {
    this.#directory = join(resolve(directory), "results");
  }

  /** Links first, in order, then the files; entries with neither are dropped. */
  async store(id: TaskId, files: readonly ArtifactFile[]): Promise<Stored> {
    const links = files.filter(({ url }) => url !== "").map(({ name, url }) => ({ name, url }));
    const uploads = files.filter(({ url, contentBase64 }) => url === "" && contentBase64 !== "");
    for (const { name, contentBase64 } of uploads) {
      if (!isSegment(name)) return refused(name, "upload: the name must be a plain file name");
      if (!isBase64(contentBase64)) {
        return refused(name, "base64 decode: only the standard alphabet is accepted");
      }
    }
    const stored = uploads.length === 0 ? [] : await this.#writeAll(id, uploads);
    return { ok: true, value: [...links, ...stored] };
  }

  /** Removes the files of these tasks. Costs nothing where no file was ever stored. */
  async removeOf(ids: readonly TaskId[]): Promise<void> {
    this.#hasFiles ??= existsSync(this.#directory);
    if (!this.#hasFiles) return;
    const options = { recursive: true, force: true };
    await Promise.all(ids.map((id) => rm(join(this.#directory, id), options)));
  }

  async #writeAll(id: TaskId, uploads: readonly ArtifactFile[]): Promise<Artifact[]> {
    const directory = join(this.#directory, id);
    this.#hasFiles = true;
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const stored = await Promise.all(uploads.map((upload) => this.#write(directory, upload)));
      // A name is kept by the directory that it is in.
      for (const each of [directory, this.#directory]) await withFile(each, "r", sync);
      return stored;
    } catch (error) {
      const { code } = error as { code?: string };
      if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
      throw new FaultError("disk_full", "there is no room for an artifact", error);
    }
  }

  async #write(directory: string, { name, contentBase64 }: ArtifactFile): Promise<Artifact> {
    const path = join(directory, name);
    await withFile(path, "w", async (file) => {
      await file.writeFile(contentBase64, "base64");
      await sync(file);
    });
    return { name, url: pathToFileURL(path).href };
  }
}

async function withFile(
  path: string,
  flags: "r" | "w",
  use: (file: FileHandle) => Promise<void>,
): Promise<void> {
  await using file = await open(path, flags, 0o600);
  await use(file);
}

function sync({ fd }: FileHandle): Promise<void> {
  return promisify(fsync)(fd);
}

/** Padding may be missing; one character alone beyond a multiple of four stands for no byte. */
function isBase64(text: string): boolean {
  return base64.test(text) && text.replace(/=+$/, "").length % 4 !== 1;
}

function refused(name: string, why: string): Stored {
  const shown = name.slice(0, limits.artifactNameCharsMax);
  return { ok: false, code: "invalid_argument", text: `artifact ${shown} ${why}` };
}

function isSegment(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
  const unsafe = /[/\\\u0000-\u001f]/.test(name) || name === "." || name === "..";
  return name !== "" && name.length <= limits.artifactNameCharsMax && !unsafe;
}
