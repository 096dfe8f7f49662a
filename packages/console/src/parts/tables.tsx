/** Tables whose rows become cards where the screen is narrow. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Pending, type RowsProps } from "./basics.tsx";

export interface Column<Row> {
  readonly head: ComponentChildren;
  readonly show: (row: Row) => ComponentChildren;
  readonly class?: string | ((row: Row) => string);
  readonly headClass?: string;
  /** Shown before the value on a card. */
  readonly label?: string;
}

type Show<Row> = Column<Row>["show"];

export function column<Row>(head: string, show: Show<Row>, look = ""): Column<Row> {
  return { head, label: head, show, class: look };
}

export function num<Row>(head: string, show: Show<Row>, look = ""): Column<Row> {
  return { head, label: head, show, class: `num ${look}`, headClass: "num" };
}

/** The name of a row, which has no label on a card. */
export function title<Row>(head: string, show: Show<Row>, look = "full name"): Column<Row> {
  return { head, show, class: look };
}

export function actions<Row>(show: Show<Row>, look = "last"): Column<Row> {
  return { head: <span class="sr">Actions</span>, show, class: look };
}

interface TableProps<Row> {
  readonly columns: readonly Column<Row>[];
  readonly id: (row: Row) => string;
}

export function CardTable<Row>(props: TableProps<Row> & RowsProps<Row>): JSX.Element {
  const { rows, error, nothing, columns, id } = props;
  if (rows === undefined) return <Pending error={error} />;
  if (rows.length === 0 && nothing !== undefined) return nothing;
  return (
    <div class="table-wrap">
      <table class="cards">
        <Heads columns={columns} />
        <tbody>
          {rows.map((row) => (
            <tr key={id(row)}>
              <Cells row={row} columns={columns} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Heads<Row>({ columns }: Pick<TableProps<Row>, "columns">): JSX.Element {
  return (
    <thead>
      <tr>
        {columns.map(({ head, headClass }, at) => (
          <th key={`${at}`} class={headClass}>
            {head}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Cells<Row>(props: Pick<TableProps<Row>, "columns"> & { readonly row: Row }): JSX.Element {
  const { columns, row } = props;
  return (
    <>
      {columns.map(({ show, class: look, label }, at) => (
        <td key={`${at}`} class={typeof look === "function" ? look(row) : look} data-l={label}>
          {show(row)}
        </td>
      ))}
    </>
  );
}

interface LongTableProps<Row> extends TableProps<Row> {
  readonly rows: readonly Row[];
  readonly label: string;
  readonly rowPx: number;
  /** The id of the row that keys act on. */
  readonly cursor: string | undefined;
  readonly class?: string;
  readonly isChosen?: (row: Row) => boolean;
  readonly onEnd?: () => void;
}

/** Draws only the visible rows, so that the table can have any length. */
export function LongTable<Row>(props: LongTableProps<Row>): JSX.Element {
  const { rows, columns, rowPx, cursor } = props;
  const view = useVisibleRows(rows.length, rowPx, props.onEnd);
  useEffect(() => {
    const box = view.scroller.current;
    const row = box?.querySelector("tr.cursor");
    const at = rows.findIndex((each) => props.id(each) === cursor);
    if (row) row.scrollIntoView({ block: "nearest" });
    else if (box && at >= 0) box.scrollTop = at * rowPx;
  }, [cursor]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
    <div class="vt" ref={view.scroller} tabIndex={0} role="region" aria-label={props.label}>
      <table class={`cards ${props.class ?? ""}`} aria-rowcount={rows.length + 1}>
        <Heads columns={columns} />
        <tbody>
          <PadRow columns={columns.length} px={view.from * rowPx} />
          {rows.slice(view.from, view.to).map((row, at) => (
            <tr
              key={props.id(row)}
              class={props.id(row) === cursor ? "cursor" : undefined}
              data-chosen={props.isChosen?.(row) === true ? "" : undefined}
              aria-rowindex={view.from + at + 2}
            >
              <Cells row={row} columns={columns} />
            </tr>
          ))}
          <PadRow columns={columns.length} px={(rows.length - view.to) * rowPx} />
        </tbody>
      </table>
    </div>
  );
}

/** Takes the space of rows that are not drawn. */
function PadRow({ columns, px }: { columns: number; px: number }): JSX.Element {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: an empty row cannot have the focus.
    <tr class="pad" aria-hidden="true">
      <td colSpan={columns} style={{ height: `${px}px` }} />
    </tr>
  );
}

const spare = 12;
const cardsMax = 100;
const narrow = "(max-width: 720px)";

/** On narrow screens rows are cards of different heights, and the first hundred are drawn. */
function useVisibleRows(length: number, rowPx: number, onEnd: () => void = () => {}) {
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800, isNarrow: matchMedia(narrow).matches });
  const atEnd = useRef(onEnd);
  atEnd.current = onEnd;
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const measure = (): void => {
      const { scrollTop: top, clientHeight: height, scrollHeight } = element;
      setView({ top, height, isNarrow: matchMedia(narrow).matches });
      if (top + height > scrollHeight - rowPx * spare) atEnd.current();
    };
    measure();
    element.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, [rowPx, length]);
  if (view.isNarrow) return { scroller, from: 0, to: Math.min(length, cardsMax) };
  const from = Math.max(0, Math.floor(view.top / rowPx) - spare);
  const to = Math.min(length, Math.ceil((view.top + view.height) / rowPx) + spare);
  return { scroller, from, to };
}
