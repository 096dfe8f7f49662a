/** Preferences of this browser: theme, time format, single-letter shortcuts, payloads. */
import type { TimeMode } from "./format.ts";
import { createStore, keptStore, useStore } from "./store.ts";

export const theme = keptStore<"" | "light" | "dark">("theme", "");
export const timeMode = keptStore<TimeMode>("time", "relative");
export const shortcuts = keptStore<"on" | "off">("shortcuts", "on");
export const payloads = keptStore<"shown" | "hidden">("payloads", "shown");

export function isDark(): boolean {
  if (theme.get() !== "") return theme.get() === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

export function applyTheme(): void {
  const { dataset } = document.documentElement;
  if (theme.get() === "") delete dataset["theme"];
  else dataset["theme"] = theme.get();
}

/** The current time, for ages on the page. */
const now = createStore(Date.now());

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.set(Date.now());
  }, 1000);
}

export function useNow(): number {
  return useStore(now);
}
