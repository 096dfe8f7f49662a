/** The cells of a queue's row that say how old its oldest task is, and how fast tasks come and go. */
import type { JSX } from "preact";
import { duration, rate } from "../format.ts";
import type { QueueRow } from "../model/queues.ts";

export function PaceCells({ row }: { readonly row: QueueRow }): JSX.Element {
  return (
    <>
      <td class="num" data-l="Oldest">
        {row.oldestSeconds === undefined ? "–" : duration(row.oldestSeconds * 1000)}
      </td>
      <td class="num" data-l="In/s">
        {rate(row.rates.enqueued)}
      </td>
      <td class="num" data-l="Out/s">
        {rate(row.rates.completed)}
      </td>
    </>
  );
}
