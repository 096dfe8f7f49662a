/** The shortcuts, and the switch that turns them off. */
import type { JSX } from "preact";
import { Kbd } from "../parts/basics.tsx";
import { shortcuts } from "../preferences.ts";
import { useStore } from "../store.ts";
import { closeDialog, Dialog, openDialog } from "./dialog.tsx";

const list: readonly (readonly [string, string])[] = [
  ["⌘K or Ctrl K", "Search or jump to"],
  ["/", "Filter the list"],
  ["J K", "Next, previous row"],
  ["X", "Select the row"],
  ["Enter", "Open the row"],
  ["R", "Replay"],
  ["E", "Edit and replay"],
  ["N", "Run now"],
  ["W", "Explain: why is it not running?"],
  ["P", "Pause or resume live updates"],
  ["G then O, Q, T, F", "Overview, queues, tasks, failures"],
  ["?", "This list"],
];

export function showKeys(): void {
  openDialog(KeyList);
}

function KeyList(): JSX.Element {
  const state = useStore(shortcuts);
  return (
    <Dialog label="Keyboard shortcuts">
      <header>
        <h2>Keyboard shortcuts</h2>
      </header>
      <div class="body">
        <dl class="facts">
          {list.map(([keys, text]) => (
            <div key={keys} class="fact">
              <dt>{keys}</dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
        <label class="row">
          <input
            type="checkbox"
            checked={state === "on"}
            onChange={(event) => shortcuts.set(event.currentTarget.checked ? "on" : "off")}
          />
          Shortcuts of single letters
        </label>
      </div>
      <footer>
        <button class="btn" type="button" onClick={closeDialog} data-first="">
          Close <Kbd>Esc</Kbd>
        </button>
      </footer>
    </Dialog>
  );
}
