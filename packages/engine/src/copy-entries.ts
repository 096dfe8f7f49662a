/**
 * Fills a new kv with entries of others, so that another kind of store goes on with them: a local log that
 * begins with its first record, or a shared log that begins behind a slot.
 */
import { positionKey } from "./flusher.ts";
import { endedKey, storedPlaceOf } from "./follower.ts";
import { checksumBytes, seal } from "./kv/checked-value.ts";
import type { Kv, KvEntry } from "./kv/kv.ts";
import { firstPlace, type LogPlace, placeText } from "./log/replicated/slot-rules.ts";

const pieceEntries = 2000;
const everything = { after: "", before: "\x7f" } as const;
/** Say where a kv is in its own log. */
const ownKeys: ReadonlySet<string> = new Set([positionKey, endedKey]);

/** Copies what is wanted, as it is; answers how many entries that were. */
export async function copyEntries(
  from: Kv,
  to: Kv,
  wants: (key: string) => boolean,
): Promise<number> {
  const cursor = from.cursor(everything);
  let copied = 0;
  try {
    for (;;) {
      const entries = await cursor.next(pieceEntries);
      if (entries.length === 0) return copied;
      const wanted = entries.filter(([key]) => !ownKeys.has(key) && wants(key));
      await write(to, wanted);
      copied += wanted.length;
    }
  } finally {
    await cursor.close();
  }
}

/** Writes entries of its own. */
export async function writeEntries(to: Kv, entries: readonly KvEntry[]): Promise<void> {
  await write(
    to,
    entries.map(([key, value]) => {
      const sealed = Buffer.alloc(value.length + checksumBytes);
      value.copy(sealed);
      return [key, sealed.subarray(0, seal(key, sealed, value.length))] as const;
    }),
  );
}

/** The kv goes on with a shared log whose first record is behind the slot. */
export async function goOnWith(to: Kv, log: { logId: number; slot: number }): Promise<void> {
  await writePosition(to, log.logId, { ...firstPlace, slot: log.slot });
}

/** The kv goes on with another shared log, whose first record is behind the place where the kv is. */
export async function moveToLog(kv: Kv, logId: number): Promise<void> {
  const place = storedPlaceOf(kv);
  await writePosition(kv, logId, place);
  await kv.files?.noteWritten(place.index);
  await kv.files?.makeDurable();
}

/** Nothing of it is in memory only. */
export async function makeDurable(to: Kv): Promise<void> {
  await to.files?.noteWritten(0);
  await to.files?.makeDurable();
}

async function writePosition(to: Kv, logId: number, place: LogPlace): Promise<void> {
  const position = Buffer.from(`${place.index} ${logId} ${placeText(place)}`, "latin1");
  await writeEntries(to, [[positionKey, position]]);
}

async function write(to: Kv, entries: readonly KvEntry[]): Promise<void> {
  const batch = to.batch();
  for (const [key, value] of entries) batch.put(key, value);
  await batch.write({ sync: true });
}
