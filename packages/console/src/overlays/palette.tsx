/** Search or jump to: queues, tasks by id, pages and actions. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { count } from "../format.ts";
import { useChoice } from "../keys.ts";
import { useKnownQueues } from "../model/queues.ts";
import { pagesFor } from "../pages/nav.ts";
import { Hints, Kbd, queueHref } from "../parts/basics.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { theme } from "../preferences.ts";
import { isPaused } from "../query.ts";
import { href, navigate } from "../router.ts";
import { session } from "../session.ts";
import { closeDialog, Dialog, openDialog } from "./dialog.tsx";

interface Option {
  readonly group: string;
  readonly icon: IconName;
  readonly text: string;
  readonly end?: string;
  readonly run: () => void;
}

export function openPalette(): void {
  openDialog(<Palette />);
}

const perGroup = 6;

function Palette(): JSX.Element {
  const [text, setText] = useState("");
  const options = useOptions(text.trim());
  const [chosen, choose] = useChoice(options, (option) => option.group + option.text);
  const run = (option: Option | undefined): void => {
    if (option === undefined) return;
    closeDialog();
    option.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      choose(step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(chosen);
    }
  };
  const groups = [...new Set(options.map(({ group }) => group))];
  return (
    <Dialog label="Search or jump to" className="palette">
      <div class="q row">
        <Icon name="search" />
        <input
          placeholder="Search queues, task ids, pages and actions"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-results"
          aria-activedescendant={chosen === undefined ? undefined : `p-${options.indexOf(chosen)}`}
          aria-label="Search"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onKeyDown={onKeyDown}
          onInput={(event) => {
            setText(event.currentTarget.value);
            choose(0);
          }}
        />
        <Kbd>Esc</Kbd>
      </div>
      <div class="res" role="listbox" id="palette-results" aria-label="Results">
        {groups.map((group) => (
          <div key={group} role="group" aria-label={group}>
            <div class="gh" aria-hidden="true">
              {group}
            </div>
            {options.map((option, index) =>
              option.group !== group ? null : (
                <button
                  key={option.text}
                  id={`p-${index}`}
                  class="opt"
                  type="button"
                  role="option"
                  tabIndex={-1}
                  aria-selected={option === chosen}
                  onClick={() => run(option)}
                >
                  <Icon name={option.icon} />
                  <bdi class="trunc">{option.text}</bdi>
                  <span class="end sub">{option.end}</span>
                </button>
              ),
            )}
          </div>
        ))}
        {options.length === 0 ? (
          <p class="gh">No queue, page or action matches. A task id needs at least 6 characters.</p>
        ) : null}
      </div>
      <div class="foot sub">
        <Hints of={["↑ ↓ move", "↵ open"]} />
        <span>Paste a task id, or at least 6 characters of it</span>
      </div>
    </Dialog>
  );
}

function useOptions(text: string): Option[] {
  const { data: queues = [] } = useKnownQueues();
  const wanted = text.toLowerCase();
  const go = (to: string) => () => navigate(to);
  const tasks: Option[] = /^[0-9a-f-]{6,36}$/i.test(text)
    ? [{ group: "Task", icon: "tasks", text: `Task ${text}`, run: go(href(`/tasks/${text}`)) }]
    : [];
  const found = queues
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .sort((one, other) => other.waiting - one.waiting)
    .slice(0, perGroup)
    .map(
      ({ name, waiting, dead }): Option => ({
        group: "Queues",
        icon: "queues",
        text: name,
        end: dead > 0 ? `${count(dead)} dead` : `${count(waiting)} waiting`,
        run: go(queueHref(name)),
      }),
    );
  const pages = pagesFor(session.get() ?? { role: "viewer" }).map(
    ({ title, path, icon, key }): Option => ({
      group: "Go to",
      icon,
      text: title,
      ...(key === undefined ? {} : { end: `G ${key.toUpperCase()}` }),
      run: go(href(path)),
    }),
  );
  const actions: Option[] = [
    {
      group: "Actions",
      icon: "pause",
      text: "Pause or resume live updates",
      run: () => isPaused.set(!isPaused.get()),
    },
    { group: "Actions", icon: "moon", text: "Theme: dark", run: () => theme.set("dark") },
    { group: "Actions", icon: "sun", text: "Theme: light", run: () => theme.set("light") },
    { group: "Actions", icon: "settings", text: "Theme: as the system", run: () => theme.set("") },
  ];
  const matching = [...pages, ...actions].filter((each) =>
    each.text.toLowerCase().includes(wanted),
  );
  return [...tasks, ...found, ...matching];
}
