/** What this page asked the server: everything can be done by a script, too. */
import type { JSX } from "preact";
import { curlOf, madeCalls } from "../api.ts";
import { Kbd } from "../parts/basics.tsx";
import { CodeBox } from "../parts/code-box.tsx";
import { useStore } from "../store.ts";
import { closeDialog, Dialog, openDialog } from "./dialog.tsx";

export function showApiCalls(): void {
  openDialog(ApiCalls);
}

function ApiCalls(): JSX.Element {
  const calls = useStore(madeCalls);
  return (
    <Dialog label="API calls">
      <header>
        <h2>API calls</h2>
        <p class="muted">
          What this page asked the server, the newest first. The token is not shown.
        </p>
      </header>
      <div class="body">
        {calls.slice(0, 8).map((call) => (
          <div key={`${call.method} ${call.url}`} class="field">
            <span>
              {call.status} in {Math.round(call.ms)} ms
            </span>
            <CodeBox text={curlOf(call)} label="Call with curl" />
          </div>
        ))}
      </div>
      <footer>
        <a class="btn ghost left" href="/docs" target="_blank" rel="noreferrer">
          All of the API
        </a>
        <button class="btn" type="button" onClick={closeDialog} data-first="">
          Close <Kbd>Esc</Kbd>
        </button>
      </footer>
    </Dialog>
  );
}
