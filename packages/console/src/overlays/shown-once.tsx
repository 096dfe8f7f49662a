/** A text that the server tells once, to be copied now. */
import type { JSX } from "preact";
import { CodeBox } from "../parts/code-box.tsx";
import { closeDialog, Dialog, openDialog } from "./dialog.tsx";

interface ShownOnceProps {
  readonly title: string;
  readonly label: string;
  readonly text: string;
}

/** Opens after the dialog that asked for it has closed itself. */
export function showOnce(props: ShownOnceProps): void {
  setTimeout(() => openDialog(() => <ShownOnce {...props} />));
}

function ShownOnce({ title, label, text }: ShownOnceProps): JSX.Element {
  return (
    <Dialog label={title}>
      <header>
        <h2>{title}</h2>
        <p class="muted">Copy it now, it won't be shown again.</p>
      </header>
      <div class="body">
        <CodeBox text={text} label={label} />
      </div>
      <footer>
        <button class="btn primary" type="button" data-first="" onClick={closeDialog}>
          Done
        </button>
      </footer>
    </Dialog>
  );
}
