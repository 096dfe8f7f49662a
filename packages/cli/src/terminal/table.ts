/** Rows in columns: text to the left, numbers to the right, two spaces between. */
import { type Style, widthOf } from "./style.ts";

export interface Column<Row> {
  readonly title: string;
  readonly align?: "right";
  readonly show: (row: Row) => string;
}

/** Lines, with the titles first. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  style: Style,
): string[] {
  const cells = rows.map((row) => columns.map((column) => column.show(row)));
  const widths = columns.map(({ title }, place) =>
    Math.max(title.length, ...cells.map((line) => widthOf(line[place] ?? ""))),
  );
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, place) => {
        const padding = " ".repeat(Math.max(0, (widths[place] ?? 0) - widthOf(text)));
        return columns[place]?.align === "right" ? padding + text : text + padding;
      })
      .join("  ")
      .trimEnd();
  const head = line(columns.map(({ title }) => title));
  return [style.bold(head), ...cells.map(line)];
}
