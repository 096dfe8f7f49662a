/**
 * Where artifacts are stored. A key is `<task>/<upload>/<name>` and is written once: each upload has its own
 * key, so nothing is ever overwritten. An upload that is incomplete does not exist.
 */
import type { Readable } from "node:stream";
import type { TaskId } from "@codeq/queue";

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
  /** What is younger may be an upload of another server, and is not collected. */
  readonly collectAfterMs: number;
  /** Resolves when the content would survive a crash; after a failure nothing of it is there. */
  put(key: ArtifactKey, content: AsyncIterable<Uint8Array>, contentType: string): Promise<void>;
  /** Undefined when there is no such artifact. */
  open(key: ArtifactKey, range: ByteRange): Promise<Readable | undefined>;
  /** A URL that gives out the content for a while; undefined when the server has to. */
  link(key: ArtifactKey, contentType: string): Promise<string | undefined>;
  remove(keys: readonly ArtifactKey[]): Promise<void>;
  /**
   * How all files of tasks are removed once they are deleted. `named` are those that their results name,
   * and can be asked for now only.
   */
  removalOf(
    ids: readonly TaskId[],
    named: (id: TaskId) => readonly ArtifactKey[],
  ): () => Promise<void>;
  /** Everything there is, task by task. */
  list(): AsyncIterable<ListedArtifact>;
  /** Removes what uploads have left that were cut off. */
  sweep(): Promise<void>;
}

/** The store of artifacts did not do what it was asked. */
export class ArtifactFault extends Error {
  override readonly name = "ArtifactFault";
  /** Whether it is worth another try. */
  readonly isTemporary: boolean;

  constructor(message: string, isTemporary: boolean, cause?: unknown) {
    super(message, { cause });
    this.isTemporary = isTemporary;
  }
}
