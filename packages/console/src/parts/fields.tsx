/** Fields of forms, each with its label. */
import type { ComponentChildren, JSX } from "preact";
import { jsonProblem } from "../json-lines.ts";

interface TextFieldProps {
  readonly label: ComponentChildren;
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** For names and URLs: monospace, no spell check. */
  readonly isCode?: boolean;
  readonly inputMode?: "numeric" | "url";
  readonly maxLength?: number;
  readonly input?: JSX.IntrinsicElements["input"];
}

export function TextField({
  label,
  onChange,
  isCode,
  input = {},
  ...rest
}: TextFieldProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        autocomplete="off"
        {...rest}
        {...input}
        class={isCode === true ? "input mono" : "input"}
        spellcheck={isCode !== true}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}

interface PayloadFieldProps {
  readonly rows: number;
  readonly value: string;
  /** The note on a valid payload. */
  readonly good: string;
  readonly onChange: (value: string) => void;
}

export function PayloadField({ rows, value, good, onChange }: PayloadFieldProps): JSX.Element {
  const problem = jsonProblem(value);
  return (
    <>
      <label class="field">
        <span>Payload</span>
        <textarea
          class="input code-edit"
          rows={rows}
          spellcheck={false}
          aria-invalid={problem !== undefined}
          value={value}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      </label>
      <p class={problem === undefined ? "good" : "bad"} role="status">
        {problem ?? good}
      </p>
    </>
  );
}

interface CheckBoxProps {
  readonly class: string;
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
  readonly children: ComponentChildren;
}

export function CheckBox({ class: look, isOn, onChange, children }: CheckBoxProps): JSX.Element {
  return (
    <label class={look}>
      <input
        type="checkbox"
        checked={isOn}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      {children}
    </label>
  );
}

export function Choices<T extends string>(props: {
  readonly label: string;
  readonly options: Readonly<Record<T, string>>;
  readonly value: T;
  readonly onChange: (value: T) => void;
  readonly large?: boolean;
}): JSX.Element {
  return (
    <fieldset class={`seg ${props.large === true ? "lg" : ""}`}>
      <legend class="sr">{props.label}</legend>
      {(Object.keys(props.options) as T[]).map((value) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.onChange(value)}
        >
          {props.options[value]}
        </button>
      ))}
    </fieldset>
  );
}
