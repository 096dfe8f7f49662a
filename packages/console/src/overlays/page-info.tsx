/** The API calls that the page made, and the keyboard shortcuts. */
import type { JSX } from "preact";
import { curlOfCall, madeCalls } from "../api.ts";
import { CodeBox, type Fact, Facts } from "../parts/basics.tsx";
import { CheckBox } from "../parts/fields.tsx";
import { shortcuts } from "../preferences.ts";
import { useStore } from "../store.ts";
import { InfoDialog, openDialog } from "./dialog.tsx";

export function showApiCalls(): void {
  openDialog(<ApiCalls />);
}

function ApiCalls(): JSX.Element {
  const calls = useStore(madeCalls);
  const more = (
    <a class="btn ghost left" href="/docs" target="_blank" rel="noreferrer">
      All of the API
    </a>
  );
  return (
    <InfoDialog
      title="API calls"
      about="What this page asked the server, the newest first. The token is not shown."
      more={more}
    >
      {calls.slice(0, 8).map((call) => (
        <div key={`${call.method} ${call.url}`} class="field">
          <span>
            {call.status} in {Math.round(call.ms)} ms
          </span>
          <CodeBox text={curlOfCall(call)} label="Call with curl" />
        </div>
      ))}
    </InfoDialog>
  );
}

const keys: readonly Fact[] = [
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
  openDialog(<KeyList />);
}

function KeyList(): JSX.Element {
  const state = useStore(shortcuts);
  return (
    <InfoDialog title="Keyboard shortcuts">
      <Facts of={keys} />
      <CheckBox
        class="row"
        isOn={state === "on"}
        onChange={(isOn) => shortcuts.set(isOn ? "on" : "off")}
      >
        Single-letter shortcuts
      </CheckBox>
    </InfoDialog>
  );
}
