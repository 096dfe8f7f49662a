/** The filter as tokens, with completion. The URL holds the filter. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useChoice } from "../keys.ts";
import {
  type Completion,
  completions,
  type FilterToken,
  parseFilter,
  showFilter,
} from "../task-filter.ts";
import { Given, Hints, Kbd } from "./basics.tsx";
import { Icon } from "./icon.tsx";

interface FilterBarProps {
  readonly tokens: readonly FilterToken[];
  readonly onChange: (text: string) => void;
  /** Values for completion, by key. */
  readonly known: Readonly<Record<string, readonly string[]>>;
  readonly problem: string | undefined;
}

export function FilterBar({ tokens, onChange, known, problem }: FilterBarProps): JSX.Element {
  const [text, setText] = useState("");
  const [isOpen, setOpen] = useState(false);
  const options = isOpen ? completions(text, known) : [];
  const [chosen, choose] = useChoice(options, (option) => option.text);
  const add = (more: string): void => {
    onChange(showFilter([...tokens, ...parseFilter(more)]));
    setText("");
    choose(0);
  };
  const take = (option: Completion): void => {
    if (option.isWhole) add(option.text);
    else setText(option.text);
    choose(0);
  };
  /** Returns whether the key had an effect. */
  const pressed = (key: string, isBack: boolean): boolean => {
    const isWord = text.trim() !== "";
    switch (key) {
      case "ArrowDown":
        choose(1);
        return true;
      case "ArrowUp":
        choose(-1);
        return true;
      case "Tab":
        if (chosen === undefined || !isWord || isBack) return false;
        take(chosen);
        return true;
      case "Enter":
        if (isWord) finish(chosen);
        return isWord;
      case "Backspace":
        if (text !== "" || tokens.length === 0) return false;
        onChange(showFilter(tokens.slice(0, -1)));
        return true;
    }
    return false;
  };
  const finish = (option: Completion | undefined): void => {
    if (/:./.test(text) || option === undefined) add(text);
    else take(option);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      setOpen(false);
      (event.currentTarget as HTMLElement).blur();
    } else if (pressed(event.key, event.shiftKey)) event.preventDefault();
  };
  return (
    <div class="filter">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a click beside the tokens means the field. */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the field itself is reached by keyboard. */}
      <div
        class="filter-box row wrap"
        onClick={(event) => {
          if (event.target === event.currentTarget) document.getElementById("task-filter")?.focus();
        }}
      >
        <Icon name="search" />
        {tokens.map((token, index) => (
          <span class="tok" key={`${token.key}:${token.value}`}>
            <span class="k">{token.key}:</span>
            <span class="v trunc">
              <Given text={token.value} max={100} />
            </span>
            <button
              type="button"
              aria-label={`Remove ${token.key}:${token.value}`}
              onClick={() => onChange(showFilter(tokens.filter((_, other) => other !== index)))}
            >
              <Icon name="x" small />
            </button>
          </span>
        ))}
        <input
          id="task-filter"
          aria-label="Filter tasks"
          placeholder={
            tokens.length === 0
              ? "Filter: queue: state: error: payload.x: or an id"
              : "Add a filter"
          }
          role="combobox"
          aria-expanded={options.length > 0}
          aria-controls="filter-options"
          aria-activedescendant={chosen === undefined ? undefined : `f-${options.indexOf(chosen)}`}
          aria-describedby={problem === undefined ? undefined : "filter-problem"}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onKeyDown={onKeyDown}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setOpen(true);
            choose(0);
          }}
        />
        <Kbd>/</Kbd>
      </div>
      <div class="complete float" hidden={options.length === 0}>
        <div role="listbox" id="filter-options" aria-label="Filters">
          {options.map((option, index) => (
            <button
              key={option.text}
              id={`f-${index}`}
              class="opt"
              type="button"
              role="option"
              tabIndex={-1}
              aria-selected={option === chosen}
              // On mouse down the field would lose the focus and close the list.
              onMouseDown={(event) => {
                event.preventDefault();
                take(option);
              }}
            >
              <code>{option.text}</code>
              <span class="end sub">{option.about}</span>
            </button>
          ))}
        </div>
        <div class="foot sub" aria-hidden="true">
          <Hints of={["↑ ↓ move", "Tab complete"]} />
        </div>
      </div>
      {problem === undefined ? null : (
        <p class="bad" id="filter-problem" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}
