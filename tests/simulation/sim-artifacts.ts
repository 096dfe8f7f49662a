/** Where the files of a simulated run are. It outlives the server, and is slow or fails now and then. */
import type { TaskId } from "@codeq/queue";
import type { SimClock, SimRandom } from "@codeq/simulated";
import {
  ArtifactFault,
  type ArtifactKey,
  MemoryArtifacts,
} from "../../packages/server/src/features/artifacts/artifact-provider.ts";

const failureChance = 0.1;
const msMax = 500;
/** The sweep has had time enough to find what is older. */
const youngMs = 2.5 * 60_000;

export class SimArtifacts extends MemoryArtifacts {
  readonly #clock: SimClock;
  readonly #random: SimRandom;
  readonly #stored = new Map<string, { readonly key: ArtifactKey; readonly atMs: number }>();

  constructor(clock: SimClock, random: SimRandom) {
    super();
    this.#clock = clock;
    this.#random = random;
  }

  has({ upload }: ArtifactKey): boolean {
    return this.#stored.has(upload);
  }

  /** Files that have been there for a while. */
  *old(): Generator<ArtifactKey> {
    for (const { key, atMs } of this.#stored.values()) {
      if (this.#clock.monotonicMs() - atMs > youngMs) yield key;
    }
  }

  override async put(key: ArtifactKey, content: AsyncIterable<Uint8Array>): Promise<void> {
    const ms = this.#random.next() * msMax;
    const fails = this.#random.next() < failureChance;
    await new Promise<void>((resolve) => {
      this.#clock.after(ms, resolve);
    });
    if (fails) throw new ArtifactFault("the artifact storage answered 500", true);
    await super.put(key, content);
    this.#stored.set(key.upload, { key, atMs: this.#clock.monotonicMs() });
  }

  override async remove(keys: readonly ArtifactKey[]): Promise<void> {
    await super.remove(keys);
    for (const { upload } of keys) this.#stored.delete(upload);
  }

  override removalOf(ids: readonly TaskId[]): () => Promise<void> {
    const remove = super.removalOf(ids);
    return async () => {
      await remove();
      for (const { key } of [...this.#stored.values()]) {
        if (ids.includes(key.id)) this.#stored.delete(key.upload);
      }
    };
  }
}
