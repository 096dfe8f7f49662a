/** Pages by URL: everything that a page shows can be shared as its address. */
import { createStore, useStore } from "./store.ts";

export interface Location {
  /** Below `/ui`, without a slash at the end: `/tasks/018f…`; empty for the overview. */
  readonly path: string;
  readonly query: URLSearchParams;
}

const base = "/ui";

function read(): Location {
  const { pathname, search } = window.location;
  const path = pathname.startsWith(base) ? pathname.slice(base.length) : "";
  return { path: path.replace(/\/+$/, ""), query: new URLSearchParams(search) };
}

const store = createStore<Location>(read());
window.addEventListener("popstate", () => store.set(read()));

export function useLocation(): Location {
  return useStore(store);
}

export function href(
  path: string,
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const given = Object.entries(query).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== "",
  );
  const search = new URLSearchParams(given).toString();
  return `${base}${path}${search === "" ? "" : `?${search}`}`;
}

export function navigate(to: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  store.set(read());
  if (!replace) window.scrollTo(0, 0);
}

/** Links to pages of the console do not reload it; the browser handles all other links. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest("a");
  if (link === null || link === undefined || link.target !== "" || link.hasAttribute("download")) {
    return;
  }
  const to = new URL(link.href);
  const isOwn = to.pathname === base || to.pathname.startsWith(`${base}/`);
  if (to.origin !== window.location.origin || !isOwn || to.hash !== "") return;
  event.preventDefault();
  navigate(to.pathname + to.search);
}
