/** JSON as it was sent: numbers exactly, everything else as text. */
import type { JSX } from "preact";
import { visible } from "../format.ts";
import { jsonLines, linesMax } from "../json-lines.ts";

const classes = {
  key: "jk",
  string: "js",
  number: "jn",
  word: "jn",
  mark: "jp",
  text: "js",
} as const;

export function JsonView({
  text,
  label,
}: {
  readonly text: string;
  readonly label: string;
}): JSX.Element {
  const lines = jsonLines(text);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keyboard.
    <div class="json" tabIndex={0} role="region" aria-label={label}>
      {lines.map(({ depth, pieces }, at) => (
        <div key={`${at}`}>
          {"  ".repeat(depth)}
          {pieces.map((piece, index) => (
            <span key={`${index}`} class={classes[piece.kind]}>
              {visible(piece.text)}
              {piece.isExact === true ? <span class="exact">exact</span> : null}
            </span>
          ))}
        </div>
      ))}
      {lines.length >= linesMax ? <div>… the rest is not shown; copy it instead</div> : null}
    </div>
  );
}
