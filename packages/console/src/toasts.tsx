/** What was done, said for a few seconds where everybody sees and hears it. */
import type { JSX } from "preact";
import { Icon } from "./parts/icon.tsx";
import { createStore, useStore } from "./store.ts";

interface Toast {
  readonly text: string;
  readonly link?: { readonly href: string; readonly text: string } | undefined;
  readonly isBad: boolean;
}

const shownMs = 5000;
const store = createStore<Toast | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

export function tell(text: string, link?: Toast["link"]): void {
  show({ text, link, isBad: false });
}

export function tellProblem(error: unknown): void {
  show({ text: error instanceof Error ? error.message : String(error), isBad: true });
}

function show(toast: Toast): void {
  clearTimeout(timer);
  store.set(toast);
  timer = setTimeout(() => store.set(undefined), shownMs);
}

export function Toasts(): JSX.Element {
  const toast = useStore(store);
  return (
    <div role="status" aria-live="polite">
      {toast === undefined ? null : (
        <div class="toast">
          <span class={toast.isBad ? "bad" : "good"}>
            <Icon name={toast.isBad ? "warn" : "check"} />
          </span>
          <span>{toast.text}</span>
          {toast.link === undefined ? null : <a href={toast.link.href}>{toast.link.text}</a>}
        </div>
      )}
    </div>
  );
}
