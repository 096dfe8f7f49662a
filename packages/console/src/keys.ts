/** Shortcuts of single letters. They are off while a field or a dialog has the focus, and can be turned off. */
import { useLayoutEffect } from "preact/hooks";
import { shortcuts } from "./preferences.ts";

export type KeyMap = Readonly<Record<string, () => void>>;

/** The newest first: a page comes before the shell. */
const maps: KeyMap[] = [];
let isChord = false;

export function useKeys(map: KeyMap): void {
  // At once: a key may be pressed as soon as the page is there.
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
  // What Enter means on a link or a button, the browser knows.
  if (name === "Enter" && (target as Element).closest("a, button, summary")) return undefined;
  return maps.find((map) => map[name] !== undefined)?.[name];
}

/** Moves a mark through rows with J and K; Enter opens the link of the row. */
export function rowKeys(selector: string): KeyMap {
  const rows = (): HTMLElement[] => [...document.querySelectorAll<HTMLElement>(selector)];
  const move = (step: number): void => {
    const all = rows();
    const at = all.findIndex((row) => row.classList.contains("cursor"));
    const next = all[Math.min(all.length - 1, Math.max(0, at + step))];
    if (next === undefined) return;
    all[at]?.classList.remove("cursor");
    next.classList.add("cursor");
    next.scrollIntoView({ block: "nearest" });
  };
  const cursor = (): HTMLElement | undefined =>
    rows().find((row) => row.classList.contains("cursor"));
  return {
    j: () => move(1),
    k: () => move(-1),
    x: () => cursor()?.querySelector<HTMLElement>("input[type=checkbox]")?.click(),
    Enter: () => cursor()?.querySelector<HTMLElement>("a")?.click(),
  };
}
