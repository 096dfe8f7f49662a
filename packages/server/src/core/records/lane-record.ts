/**
 * What a lane has spent of its rate and until when it is held, as text: how far its moments were in the future when the
 * record was written, and when that was. After a restart the time since then has passed; a clock that was set back in
 * between counts as no time. The record of the whole queue has an empty lane.
 */
import { remove } from "@codeq/engine";
import type { Clock } from "../clock.ts";
import { type LaneName, laneKey } from "../store/keys.ts";
import { LateWrite } from "../store/late-writes.ts";
import { parseRecord } from "../store/row-of.ts";
import type { RecordWrite } from "../store/store.ts";

/** Moments on the monotonic clock. */
export interface Moments {
  readonly wholeMs: number;
  /** How long a unit takes by the rate that the moment was counted with. */
  readonly unitMs: number;
  readonly heldMs: number;
}

export function writeOfLane(
  of: LaneName,
  { wholeMs, unitMs, heldMs }: Moments,
  clock: Pick<Clock, "nowMs" | "monotonicMs">,
): RecordWrite {
  return new LateWrite(laneKey(of), () => {
    const nowMs = clock.monotonicMs();
    const ahead = (ms: number): number => Math.max(0, Math.ceil((ms - nowMs) * 1000) / 1000);
    return JSON.stringify([ahead(wholeMs), unitMs, ahead(heldMs), clock.nowMs()]);
  });
}

export function removalOfLane(of: LaneName): RecordWrite {
  return remove(laneKey(of));
}

/** Undefined when the text is not a valid record. */
export function decodeLane(
  text: string,
  clock: Pick<Clock, "nowMs" | "monotonicMs">,
): Moments | undefined {
  const row = parseRecord(text);
  if (!Array.isArray(row) || row.length !== 4 || !row.every(Number.isFinite)) return undefined;
  const [wholeMs, unitMs, heldMs, atMs] = row as [number, number, number, number];
  const passedMs = Math.max(0, clock.nowMs() - atMs);
  const nowMs = clock.monotonicMs();
  return { wholeMs: nowMs + wholeMs - passedMs, unitMs, heldMs: nowMs + heldMs - passedMs };
}
