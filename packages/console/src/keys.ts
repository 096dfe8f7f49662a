/** Single-letter shortcuts. They are off while a field or a dialog has the focus, and can be turned off. */
import { useLayoutEffect, useState } from "preact/hooks";
import { shortcuts } from "./preferences.ts";

export type KeyMap = Readonly<Record<string, () => void>>;

/** The newest first: a page comes before the shell. */
const maps: KeyMap[] = [];
let isChord = false;

export function useKeys(map: KeyMap): void {
  // Before the next event: a user may press a key as soon as the page is drawn.
  useLayoutEffect(() => {
    maps.unshift(map);
    return () => void maps.splice(maps.indexOf(map), 1);
  });
}

export function listenForKeys(openPalette: () => void): void {
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
      return;
    }
    const run = isForUs(event) ? actionOf(event) : undefined;
    if (run === undefined) return;
    event.preventDefault();
    run();
  });
}

function isForUs({ metaKey, ctrlKey, altKey, target }: KeyboardEvent): boolean {
  if (metaKey || ctrlKey || altKey || shortcuts.get() === "off") return false;
  return (target as Element).closest("input, textarea, select, dialog, [role=menu]") === null;
}

function actionOf({ key, target }: KeyboardEvent): (() => void) | undefined {
  const name = isChord ? `g ${key}` : key;
  isChord = key === "g" && !isChord;
  // The browser handles Enter on a link or a button.
  if (name === "Enter" && (target as Element).closest("a, button, summary")) return undefined;
  return maps.find((map) => map[name] !== undefined)?.[name];
}

interface RowActions {
  readonly open: (id: string) => void;
  readonly select?: (id: string) => void;
}

/**
 * Keys of a list: J and K move a cursor, Enter opens its row, X selects it. The cursor is the id of a row, so
 * that it stays on its row when rows are drawn again.
 */
export function useRowKeys(
  ids: readonly string[],
  { open, select }: RowActions,
): { readonly cursor: string | undefined; readonly keys: KeyMap } {
  const [cursor, setCursor] = useState<string>();
  const at = cursor === undefined ? -1 : ids.indexOf(cursor);
  const move = (step: number): void =>
    setCursor(ids[Math.min(ids.length - 1, Math.max(0, at + step))] ?? cursor);
  const act = (run: ((id: string) => void) | undefined) => () => {
    if (cursor !== undefined && at >= 0) run?.(cursor);
  };
  return {
    cursor,
    keys: { j: () => move(1), k: () => move(-1), x: act(select), Enter: act(open) },
  };
}

/**
 * The option of a list that Enter takes, and a function that moves by a step; a step of 0 goes back to the first. The
 * choice is the name of an option, so that it stays when options come and go.
 */
export function useChoice<Option>(
  options: readonly Option[],
  nameOf: (option: Option) => string,
): readonly [Option | undefined, (step: -1 | 0 | 1) => void] {
  const [name, setName] = useState<string>();
  const at = Math.max(
    0,
    options.findIndex((option) => nameOf(option) === name),
  );
  const choose = (step: -1 | 0 | 1): void => {
    const next = options[(at + step + options.length) % options.length];
    setName(step === 0 || next === undefined ? undefined : nameOf(next));
  };
  return [options[at], choose];
}
