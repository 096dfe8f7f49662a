/** The room of rows that are not drawn. */
import type { JSX } from "preact";

export function PadRow({ columns, px }: { columns: number; px: number }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: an empty row cannot have the focus.
    <tr class="pad" aria-hidden="true">
      <td colSpan={columns} style={{ height: `${px}px` }} />
    </tr>
  );
}
