/** A line of text in a form, with its label above it. */
import type { JSX } from "preact";

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** Names, URLs and such: fixed width, no spelling. */
  readonly isCode?: boolean;
  readonly inputMode?: "numeric" | "url";
  readonly maxLength?: number;
}

export function TextField({
  label,
  value,
  onChange,
  isCode,
  ...rest
}: TextFieldProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        {...rest}
        class={isCode === true ? "input mono" : "input"}
        spellcheck={isCode !== true}
        autocomplete="off"
        value={value}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}
