/** Colours on a terminal, and plain text everywhere else. */
import { stripVTControlCharacters } from "node:util";

export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
  cyan(text: string): string;
}

type Paint = (text: string) => string;

const paint =
  (on: number, off: number): Paint =>
  (text) =>
    text === "" ? "" : `\x1b[${on}m${text}\x1b[${off}m`;

const coloured: Style = {
  bold: paint(1, 22),
  dim: paint(2, 22),
  green: paint(32, 39),
  yellow: paint(33, 39),
  red: paint(31, 39),
  cyan: paint(36, 39),
};

const same: Paint = (text) => text;
const plain: Style = {
  bold: same,
  dim: same,
  green: same,
  yellow: same,
  red: same,
  cyan: same,
};

interface StyleChoice {
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** `--no-color` was given. */
  readonly refused: boolean;
}

/** See no-color.org: any value of NO_COLOR that is not empty turns colours off. */
export function chooseStyle({ isTerminal, env, refused }: StyleChoice): Style {
  const isOff = refused || (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  return isTerminal && !isOff ? coloured : plain;
}

const escapeChar = "\x1b";
const colour = new RegExp(`(${escapeChar}\\[[0-9;]*m)`);

/** How many columns a text takes, colours aside. */
export function widthOf(text: string): number {
  return stripVTControlCharacters(text).length;
}

/** Shortens to a number of columns without cutting a colour in two; what is cut off shows as `…`. */
export function fit(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text;
  let width = 0;
  let kept = "";
  for (const piece of text.split(colour)) {
    if (piece.startsWith(escapeChar)) kept += piece;
    else if (width < columns) {
      const room = columns - width;
      kept += piece.length <= room ? piece : `${piece.slice(0, Math.max(0, room - 1))}…`;
      width += Math.min(piece.length, room);
    }
  }
  return kept;
}

/** Removes control characters from texts that other people chose, because a terminal would execute them. */
export function printable(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}+/gu, " ");
}
