/** Rows in columns: text to the left, numbers to the right, two spaces between. */
import { type Style, widthOf } from "./style.ts";

export interface Column<Row> {
  readonly title: string;
  readonly align?: "right";
  readonly show: (row: Row) => string;
}

const gap = "  ";

/** As many whole texts as fit into a width, from the first on. */
export function columnsWithin<Row>(
  width: number,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): readonly Column<Row>[] {
  let used = -gap.length;
  return columns.filter((column, position) => {
    used += gap.length + columnWidth(column, rows);
    return position === 0 || used <= width;
  });
}

function columnWidth<Row>({ title, show }: Column<Row>, rows: readonly Row[]): number {
  return Math.max(title.length, ...rows.map((row) => widthOf(show(row))));
}

/** Lines, with the titles first. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  style: Style,
): string[] {
  const cells = rows.map((row) => columns.map((column) => column.show(row)));
  const widths = columns.map((column) => columnWidth(column, rows));
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, position) => {
        const padding = " ".repeat(Math.max(0, (widths[position] ?? 0) - widthOf(text)));
        return columns[position]?.align === "right" ? padding + text : text + padding;
      })
      .join(gap)
      .trimEnd();
  const head = line(columns.map(({ title }) => title));
  return [style.bold(head), ...cells.map(line)];
}
