/** Makes pictures smaller: a new pixel is the average of the area that it covers. Never enlarges. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue and alpha of every pixel, row by row. */
  readonly data: Uint8Array;
}

export function scale(from: Picture, widthMax: number): Picture {
  const width = Math.min(widthMax, from.width);
  const height = Math.max(1, Math.round((from.height * width) / from.width));
  const columns = divide(from.width, width);
  const rows = divide(from.height, height);
  const pixels = rows.flatMap((row) => columns.map((column) => average(from, row, column)));
  return { width, height, data: Uint8Array.from(pixels.flat()) };
}

/** A pixel of a line, and how much of it counts. */
interface Share {
  readonly at: number;
  readonly part: number;
}

/** Divides a line of pixels into equal pieces, whose ends may be inside a pixel. */
function divide(length: number, pieces: number): Share[][] {
  return Array.from({ length: pieces }, (_, piece) => {
    const start = (piece * length) / pieces;
    const end = ((piece + 1) * length) / pieces;
    const shares: Share[] = [];
    for (let at = Math.floor(start); at < end; at += 1) {
      shares.push({ at, part: Math.min(at + 1, end) - Math.max(at, start) });
    }
    return shares;
  });
}

/** What cannot be seen has no colour, so colours count by their alpha. */
function average({ width, data }: Picture, row: Share[], column: Share[]): number[] {
  let [red, green, blue, alpha, area] = [0, 0, 0, 0, 0];
  for (const { at: y, part: ofRow } of row) {
    for (const { at: x, part: ofColumn } of column) {
      const at = (y * width + x) * 4;
      const visible = ofRow * ofColumn * (data[at + 3] ?? 0);
      red += visible * (data[at] ?? 0);
      green += visible * (data[at + 1] ?? 0);
      blue += visible * (data[at + 2] ?? 0);
      alpha += visible;
      area += ofRow * ofColumn;
    }
  }
  if (alpha === 0) return [0, 0, 0, 0];
  return [red / alpha, green / alpha, blue / alpha, alpha / area].map(Math.round);
}
