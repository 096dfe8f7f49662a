/**
 * Brings a closed generation of the overlay into the kv: its net effect, what the store derives from
 * it, and the log position reached, as one durable batch. The kv is therefore always exactly the
 * state after some log record, and never ahead of what the log itself has made durable.
 */
import type { Kv, KvWrite } from "./kv/kv.ts";
import type { Log } from "./log/log.ts";
import type { Overlay, OverlayEntry } from "./overlay.ts";

export const positionKey = "codeq/meta/position";

/** Keys the store keeps in step with the others, such as counters; computed once per flush. */
export type Derive = (
  entries: Iterable<readonly [string, OverlayEntry]>,
  get: (key: string) => Buffer | undefined,
) => KvWrite[];

export function readPosition(kv: Kv): number {
  const stored = kv.get(positionKey);
  return stored === undefined ? 0 : Number(stored.toString("latin1"));
}

export async function flush(
  generation: { readonly overlay: Overlay; readonly throughIndex: number },
  into: { readonly kv: Kv; readonly log: Log; readonly derive: Derive },
): Promise<void> {
  await into.log.sync();
  const { entries } = generation.overlay;
  const derived = into.derive(entries, (key) => into.kv.get(key));
  await into.kv.write(netEffect(entries, derived, generation.throughIndex), { sync: true });
  await into.log.trim(generation.throughIndex + 1);
}

function* netEffect(
  entries: ReadonlyMap<string, OverlayEntry>,
  derived: readonly KvWrite[],
  throughIndex: number,
): Generator<KvWrite> {
  for (const [key, { value }] of entries) yield { key, value };
  yield* derived;
  yield { key: positionKey, value: Buffer.from(String(throughIndex), "latin1") };
}
