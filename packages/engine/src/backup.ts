/** Makes the bytes of a backup, from a view of the kv or from records of the log. */
import {
  type BackupEnd,
  type BackupHead,
  endFrame,
  entryFrame,
  headFrame,
  recordFrame,
} from "./backup-format.ts";
import type { KvCursor } from "./kv/kv.ts";
import type { LogRecord } from "./log/log.ts";

const pieceEntries = 500;

/** Everything that the kv held when the cursor was made. */
export async function* fullBackup(
  cursor: KvCursor,
  head: BackupHead,
): AsyncGenerator<Buffer, BackupEnd> {
  let items = 0;
  try {
    yield headFrame(head);
    for (;;) {
      const entries = await cursor.next(pieceEntries);
      if (entries.length === 0) break;
      items += entries.length;
      yield Buffer.concat(entries.map(([key, value]) => entryFrame(key, value)));
    }
  } finally {
    await cursor.close();
  }
  const end = { items, index: head.index };
  yield endFrame(end);
  return end;
}

/** The records behind the one that the head names. */
export async function* logBackup(
  records: AsyncIterable<LogRecord>,
  head: BackupHead,
  onEnd: (index: number) => void,
): AsyncGenerator<Buffer, BackupEnd> {
  let items = 0;
  let { index } = head;
  yield headFrame(head);
  for await (const record of records) {
    items += 1;
    index = record.index;
    yield recordFrame(record);
  }
  const end = { items, index };
  yield endFrame(end);
  onEnd(index);
  return end;
}
