/** Text to be copied. */
import type { JSX } from "preact";
import { tell, tellProblem } from "../toasts.tsx";
import { Icon } from "./icon.tsx";

export function CodeBox({ text, label = "Code" }: { text: string; label?: string }): JSX.Element {
  return (
    <div class="codebox">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard. */}
      <pre class="code" tabIndex={0} aria-label={label} role="region">
        {text}
      </pre>
      <button class="btn icon sm" type="button" aria-label="Copy" onClick={() => copyText(text)}>
        <Icon name="copy" small />
      </button>
    </div>
  );
}

export function copyText(text: string, what = "Copied"): void {
  navigator.clipboard?.writeText(text).then(() => tell(what), tellProblem) ??
    tellProblem("The browser copies only on pages with TLS, or on this machine");
}
