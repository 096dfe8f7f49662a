/**
 * Brings a closed generation of the overlay into the kv: its net effect, the index keys, what the
 * store derives from it, and the log position reached, as one durable batch. The kv is therefore
 * always exactly the state after some log record, and never ahead of what the log itself has made
 * durable.
 */
import type { FaultError } from "./fault.ts";
import { type Indexing, indexWrites } from "./index-keys.ts";
import type { Kv, KvWrite } from "./kv/kv.ts";
import type { Log } from "./log/log.ts";
import type { Overlay, OverlayEntry } from "./overlay.ts";

const positionKey = "codeq/meta/position";

/** Keys the store keeps in step with the others, such as counters; computed once per flush. */
export type Derive = (
  entries: Iterable<readonly [string, OverlayEntry]>,
  get: (key: string) => Buffer | undefined,
) => KvWrite[];

export function readPosition(kv: Kv): number {
  const stored = kv.get(positionKey);
  return stored === undefined ? 0 : Number(stored.toString("latin1"));
}

/** What is in the log up to an index and not in the kv yet. */
export interface Generation {
  readonly overlay: Overlay;
  readonly throughIndex: number;
}

export async function flush(
  generation: Generation,
  into: {
    readonly kv: Kv;
    readonly log: Log;
    readonly indexing: Indexing;
    readonly derive: Derive;
  },
): Promise<void> {
  const { overlay, throughIndex } = generation;
  await into.log.sync();
  // A kv may have kept a batch that it reported as failed; what is derived must not be added twice.
  if (readPosition(into.kv) < throughIndex) {
    const derived = into.derive(overlay.entries, (key) => into.kv.get(key));
    const writes = netEffect(overlay.entries, into.indexing, [
      ...derived,
      { key: positionKey, value: Buffer.from(String(throughIndex), "latin1") },
    ]);
    await into.kv.write(writes, { sync: true });
  }
  await trim(into.log, throughIndex + 1);
}

async function trim(log: Log, index: number): Promise<void> {
  try {
    await log.trim(index);
  } catch (error) {
    // Nothing depends on what is not needed any more being gone; the next flush removes it, too.
    if ((error as FaultError).code !== "disk_full") throw error;
  }
}

function* netEffect(
  entries: ReadonlyMap<string, OverlayEntry>,
  indexing: Indexing,
  last: readonly KvWrite[],
): Generator<KvWrite> {
  for (const [key, entry] of entries) yield { key, value: entry.value };
  // Behind all entries: those from an older log are index keys themselves, and may have moved since.
  for (const entry of entries.values()) yield* indexWrites(entry, indexing);
  yield* last;
}
