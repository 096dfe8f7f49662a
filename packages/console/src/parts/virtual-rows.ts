/**
 * Draws only the rows that can be seen, so that a list may have any length. Rows have the same height; on
 * narrow screens rows are cards of different heights, and the first hundred are drawn.
 */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface VirtualRows {
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly from: number;
  readonly to: number;
  /** Pixels above and below what is drawn. */
  readonly before: number;
  readonly after: number;
}

const spare = 12;
const cardsMax = 100;
const narrow = "(max-width: 720px)";

export function useVirtualRows(
  length: number,
  rowPx: number,
  onEnd: () => void = () => {},
): VirtualRows {
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
  if (view.isNarrow)
    return { scroller, from: 0, to: Math.min(length, cardsMax), before: 0, after: 0 };
  const from = Math.max(0, Math.floor(view.top / rowPx) - spare);
  const to = Math.min(length, Math.ceil((view.top + view.height) / rowPx) + spare);
  return { scroller, from, to, before: from * rowPx, after: (length - to) * rowPx };
}
