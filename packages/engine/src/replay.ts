/** What the log holds from a record on, as an overlay. */
import { decodeBody } from "./batch-codec.ts";
import type { Log } from "./log/log.ts";
import { Overlay } from "./overlay.ts";

export async function replay(log: Log, fromIndex: number): Promise<Overlay> {
  const overlay = new Overlay();
  for await (const record of log.readFrom(fromIndex)) {
    // The body is only valid until the next record; the overlay refers to it.
    for (const { kind, key, value } of decodeBody(Buffer.from(record.body))) {
      overlay.apply(kind, key, value, record.index);
    }
  }
  return overlay;
}
