/** What the log holds from a record on, as an overlay. */
import { type DecodedOp, decodeBody, logsIndexKeys, type Op, opKinds } from "./batch-codec.ts";
import type { Indexing, Row } from "./index-keys.ts";
import type { Kv } from "./kv/kv.ts";
import type { Log } from "./log/log.ts";
import { Overlay } from "./overlay.ts";

interface ReplayParts {
  readonly log: Log;
  /** As it was before the record. */
  readonly kv: Kv;
  readonly indexing: Indexing;
}

export async function replay(parts: ReplayParts, fromIndex: number): Promise<Overlay> {
  const overlay = new Overlay();
  for await (const record of parts.log.readFrom(fromIndex)) {
    // The body is only valid until the next record; the overlay refers to it.
    const body = Buffer.from(record.body);
    const isIndexed = !logsIndexKeys(body);
    for (const op of decodeBody(body)) {
      const { kind, key, value } = op;
      const rows = isIndexed ? rowsOf(op, overlay, parts) : noRows;
      overlay.apply({ kind, key, ...rows }, value, record.index);
    }
  }
  return overlay;
}

type Rows = Pick<Op, "row" | "before">;
const noRows: Rows = { row: undefined, before: undefined };

/** What whoever committed the op said of its rows, read from the values. */
function rowsOf({ kind, key, value }: DecodedOp, overlay: Overlay, parts: ReplayParts): Rows {
  const { indexing } = parts;
  if (!key.startsWith(indexing.prefix)) return noRows;
  const isDelete = kind === opKinds.delete;
  const text = isDelete ? undefined : value.buffer.toString("utf8", value.start, value.end);
  const row = text === undefined ? undefined : indexing.rowOf(text);
  return { row, before: kind === opKinds.create ? undefined : before(key, overlay, parts) };
}

/** The row below the overlay; where the overlay knows it already, it is not asked for. */
function before(key: string, overlay: Overlay, { kv, indexing }: ReplayParts): Row | undefined {
  const entry = overlay.entries.get(key);
  if (entry?.row !== undefined) return undefined;
  const text = entry === undefined ? kv.getText(key) : entry.text;
  return text === undefined ? undefined : indexing.rowOf(text);
}
