/** Artifacts in memory, for a server that runs inside another process. */
import { Readable } from "node:stream";
import type { TaskId } from "@codeq/queue";
import type {
  ArtifactKey,
  ArtifactProvider,
  ByteRange,
  ListedArtifact,
} from "./artifact-provider.ts";

export class MemoryArtifacts implements ArtifactProvider {
  readonly collectAfterMs = 0;
  readonly #files: Map<string, { readonly key: ArtifactKey; readonly content: Buffer }> = new Map();

  async put(key: ArtifactKey, content: AsyncIterable<Uint8Array>): Promise<void> {
    const pieces: Uint8Array[] = [];
    for await (const piece of content) pieces.push(piece);
    this.#files.set(textOf(key), { key, content: Buffer.concat(pieces) });
  }

  async open(key: ArtifactKey, { from, to }: ByteRange): Promise<Readable | undefined> {
    const file = this.#files.get(textOf(key));
    return file === undefined ? undefined : Readable.from([file.content.subarray(from, to + 1)]);
  }

  link(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async remove(keys: readonly ArtifactKey[]): Promise<void> {
    for (const key of keys) this.#files.delete(textOf(key));
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

function textOf({ id, upload, name }: ArtifactKey): string {
  return `${id}/${upload}/${name}`;
}
