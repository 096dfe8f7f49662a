/** Sends what a button asks for, and says for a few seconds what was done, for screen readers as well. */
import type { JSX } from "preact";
import { ask, type Request } from "./api.ts";
import { Icon } from "./parts/icon.tsx";
import { invalidate } from "./query.ts";
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

/** Throws what the server refused with. `changed` begins the keys of the queries to load again. */
export async function sendCall(call: Request, done: string, changed = ""): Promise<void> {
  await ask(call);
  tell(done);
  invalidate(changed);
}

/** For buttons without a dialog: a refusal is shown like success. */
export function sendNow(call: Request, done: string, changed = ""): void {
  sendCall(call, done, changed).catch(tellProblem);
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
        <div class="toast row float">
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
