/**
 * Files that workers send along with a result: `results/<task>/<submission>/<name>` below one directory.
 * A name is one path segment, so a file can neither leave the directory nor replace another one. Every
 * submission has a directory of its own, which nobody knows of before its result is committed. They are on
 * the disk before their result is acknowledged, and go with their task; what a submission leaves behind
 * that did not become the result is removed with it, or after the next start.
 */
import { existsSync, fsync } from "node:fs";
import {
  type FileHandle,
  mkdir,
  mkdtemp,
  open,
  opendir,
  readdir,
  rm,
  rmdir,
} from "node:fs/promises";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { FaultError } from "@codeq/engine";
import { limits } from "@codeq/protocol";
import type { Artifact, TaskId } from "@codeq/queue";
import type { MaybePromise } from "../maybe-promise.ts";

export interface ArtifactFile {
  readonly name: string;
  /** Passed through when it is given. */
  readonly url: string;
  readonly contentBase64: string;
}

export interface StoredArtifacts {
  readonly artifacts: readonly Artifact[];
  /** To be called when it is decided whether they belong to the result; removes them if not. */
  readonly settle: (isResult: boolean) => Promise<void>;
}

/** The URLs that the result of a task names; none while it has no result. */
export type References = readonly string[] | "task is gone" | "cannot be read";

type Stored = { readonly ok: true; readonly value: StoredArtifacts } | Refused;

interface Refused {
  readonly ok: false;
  readonly code: "invalid_argument" | "overloaded";
  readonly text: string;
  readonly retryAfterMs?: number;
}

const noFiles: StoredArtifacts = { artifacts: [], settle: async () => {} };
const retryAfterMs = 1000;

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

export class ArtifactFiles {
  readonly #directory: string;
  /** Directories of submissions that are not decided yet. */
  readonly #unsettled: Set<string> = new Set();
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
    const twice = uploads.find(({ name }, at) => uploads.findIndex((u) => u.name === name) !== at);
    if (twice !== undefined) return refused(twice.name, "upload: the name is there twice");
    const stored = uploads.length === 0 ? noFiles : await this.#writeAll(id, uploads);
    if ("code" in stored) return stored;
    const { artifacts, settle } = stored;
    return { ok: true, value: { artifacts: [...links, ...artifacts], settle } };
  }

  /** Removes the files of these tasks. Costs nothing where no file was ever stored. */
  async removeOf(ids: readonly TaskId[]): Promise<void> {
    // Once it is there it stays; until then another thread may make it.
    this.#hasFiles ||= existsSync(this.#directory);
    if (!this.#hasFiles) return;
    const options = { recursive: true, force: true };
    await Promise.all(ids.map((id) => rm(join(this.#directory, id), options)));
  }

  /** Removes what crashes left behind, and says how much that was. */
  async collect(referencesOf: (id: TaskId) => MaybePromise<References>): Promise<number> {
    if (!existsSync(this.#directory)) return 0;
    let removed = 0;
    for await (const { name } of await opendir(this.#directory)) {
      const directory = join(this.#directory, name);
      for (const entry of await readdir(directory)) {
        const path = join(directory, entry);
        // In this order: a submission that is settled has been decided.
        if (this.#unsettled.has(path) || isNamed(path, await referencesOf(name as TaskId)))
          continue;
        await rm(path, { recursive: true, force: true });
        removed += 1;
      }
      if ((await referencesOf(name as TaskId)) === "task is gone") await rmdir(directory);
    }
    return removed;
  }

  async #writeAll(
    id: TaskId,
    uploads: readonly ArtifactFile[],
  ): Promise<StoredArtifacts | Refused> {
    const ofTask = join(this.#directory, id);
    let own: string | undefined;
    this.#hasFiles = true;
    try {
      await mkdir(ofTask, { recursive: true, mode: 0o700 });
      own = await mkdtemp(join(ofTask, "s-"));
      const path = own;
      this.#unsettled.add(path);
      const artifacts = await Promise.all(uploads.map((upload) => this.#write(path, upload)));
      // A name is kept by the directory that it is in.
      for (const each of [path, ofTask, this.#directory]) await withFile(each, "r", sync);
      return { artifacts, settle: (isResult) => this.#settle(path, isResult) };
    } catch (error) {
      if (own !== undefined) await this.#settle(own, false);
      return refusalOf(error);
    }
  }

  async #settle(path: string, isResult: boolean): Promise<void> {
    this.#unsettled.delete(path);
    if (isResult) return;
    // What cannot be removed now is collected after the next start.
    await rm(path, { recursive: true, force: true }).catch(() => {});
  }

  async #write(directory: string, { name, contentBase64 }: ArtifactFile): Promise<Artifact> {
    const path = join(directory, name);
    await withFile(path, "wx", async (file) => {
      await file.writeFile(contentBase64, "base64");
      await sync(file);
    });
    return { name, url: pathToFileURL(path).href };
  }
}

async function withFile(
  path: string,
  flags: "r" | "wx",
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

function refusalOf(error: unknown): Refused {
  const { code } = error as { code?: string };
  if (code === "ENOSPC" || code === "EDQUOT") {
    throw new FaultError("disk_full", "there is no room for an artifact", error);
  }
  if (code !== "EMFILE" && code !== "ENFILE") throw error;
  return {
    ok: false,
    code: "overloaded",
    text: "too many files are open; try again",
    retryAfterMs,
  };
}

function isNamed(path: string, references: References): boolean {
  if (typeof references === "string") return references === "cannot be read";
  const url = pathToFileURL(path).href;
  return references.some((each) => each === url || each.startsWith(`${url}/`));
}

function refused(name: string, why: string): Refused {
  const shown = name.slice(0, limits.artifactNameCharsMax);
  return { ok: false, code: "invalid_argument", text: `artifact ${shown} ${why}` };
}

function isSegment(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
  const unsafe = /[/\\\u0000-\u001f]/.test(name) || name === "." || name === "..";
  return name !== "" && name.length <= limits.artifactNameCharsMax && !unsafe;
}
