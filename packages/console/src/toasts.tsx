/** Short messages about finished actions, also for screen readers, and the calls behind buttons. */
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
/** Long enough to reach the link. */
const linkMs = 30_000;
const store = createStore<Toast | undefined>(undefined);
let timer: ReturnType<typeof setTimeout> | undefined;

export function tell(text: string, link?: Toast["link"]): void {
  show({ text, link, isBad: false });
}

export function tellProblem(error: unknown): void {
  show({ text: error instanceof Error ? error.message : String(error), isBad: true });
}

/** Throws the error of the server. Queries whose keys start with `changed` are reloaded. */
export async function sendCall(call: Request, done: string, changed = ""): Promise<void> {
  await ask(call);
  tell(done);
  invalidate(changed);
}

/** For buttons without a dialog: an error is shown as a message. */
export function sendNow(call: Request, done: string, changed = ""): void {
  sendCall(call, done, changed).catch(tellProblem);
}

function show(toast: Toast): void {
  clearTimeout(timer);
  store.set(toast);
  timer = setTimeout(() => store.set(undefined), toast.link === undefined ? shownMs : linkMs);
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
