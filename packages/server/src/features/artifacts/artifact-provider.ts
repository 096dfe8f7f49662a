/**
 * Where artifacts are stored. A key is `<task>/<upload>/<name>` and is written once: each upload has its own
 * key, so nothing is ever overwritten. An upload that is incomplete does not exist.
 */
import { Readable } from "node:stream";
import type { Artifact, TaskId } from "@codeq/queue";

export interface ArtifactKey {
  readonly id: TaskId;
  /** 16 hexadecimal digits. */
  readonly upload: string;
  readonly name: string;
}

/** From the first byte to the last, both included. */
export interface ByteRange {
  readonly from: number;
  readonly to: number;
}

export interface ListedArtifact {
  readonly key: ArtifactKey;
  readonly storedMs: number;
}

export interface ArtifactProvider {
  /** A younger file may belong to a running upload of another server, and is not collected. */
  readonly collectAfterMs: number;
  /** Resolves when the content survives a crash; after a failure no part of it is left. */
  put(key: ArtifactKey, content: AsyncIterable<Uint8Array>, contentType: string): Promise<void>;
  /** Undefined when there is no such artifact. */
  open(key: ArtifactKey, range: ByteRange): Promise<Readable | undefined>;
  /** A URL at which clients get the content for a while; undefined if the server sends it itself. */
  link(key: ArtifactKey, contentType: string): Promise<string | undefined>;
  remove(keys: readonly ArtifactKey[]): Promise<void>;
  /**
   * Returns a function that removes all files of these tasks, to be called when the tasks are deleted. `named` returns
   * the files that the result of a task names; it works only before the deletion.
   */
  removalOf(
    ids: readonly TaskId[],
    named: (id: TaskId) => readonly ArtifactKey[],
  ): () => Promise<void>;
  /** All files, task by task. */
  list(): AsyncIterable<ListedArtifact>;
  /** Removes the remains of uploads that were cut off. */
  sweep(): Promise<void>;
}

/** A request to the artifact storage failed. */
export class ArtifactFault extends Error {
  override readonly name = "ArtifactFault";
  /** Whether a retry may succeed. */
  readonly isTemporary: boolean;

  constructor(message: string, isTemporary: boolean, cause?: unknown) {
    super(message, { cause });
    this.isTemporary = isTemporary;
  }
}

const uploadPattern = /^[0-9a-f]{16}$/;
const base = "http://any.invalid";

/** `base` is how clients reach the server; a path without a host if it is empty. */
export function artifactUrl(base: string, { id, upload, name }: ArtifactKey): string {
  const path = `/v1/codeq/tasks/${id}/artifacts/${encodeURIComponent(name)}?upload=${upload}`;
  return base.replace(/\/$/, "") + path;
}

/** The key of an artifact of this task; undefined if the server does not store the artifact. */
export function artifactKey(id: TaskId, { name, url, sha256 }: Artifact): ArtifactKey | undefined {
  if (sha256 === undefined) return undefined;
  const upload = URL.parse(url, base)?.searchParams.get("upload") ?? "";
  return uploadPattern.test(upload) ? { id, upload, name } : undefined;
}

/** Artifacts in memory, for a server that runs inside another process. */
export class MemoryArtifacts implements ArtifactProvider {
  readonly collectAfterMs = 0;
  readonly #files: Map<string, { readonly key: ArtifactKey; readonly content: Buffer }> = new Map();

  async put(key: ArtifactKey, content: AsyncIterable<Uint8Array>): Promise<void> {
    const pieces: Uint8Array[] = [];
    for await (const piece of content) pieces.push(piece);
    this.#files.set(pathOf(key), { key, content: Buffer.concat(pieces) });
  }

  async open(key: ArtifactKey, { from, to }: ByteRange): Promise<Readable | undefined> {
    const file = this.#files.get(pathOf(key));
    return file === undefined ? undefined : Readable.from([file.content.subarray(from, to + 1)]);
  }

  link(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async remove(keys: readonly ArtifactKey[]): Promise<void> {
    for (const key of keys) this.#files.delete(pathOf(key));
  }

  removalOf(ids: readonly TaskId[]): () => Promise<void> {
    return async () => {
      for (const [text, { key }] of this.#files) if (ids.includes(key.id)) this.#files.delete(text);
    };
  }

  async *list(): AsyncGenerator<ListedArtifact> {
    for (const { key } of [...this.#files.values()]) yield { key, storedMs: 0 };
  }

  async sweep(): Promise<void> {}
}

function pathOf({ id, upload, name }: ArtifactKey): string {
  return `${id}/${upload}/${name}`;
}
