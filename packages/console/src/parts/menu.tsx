/** A button that opens a few more choices; Esc and a click elsewhere close them. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon, type IconName } from "./icon.tsx";

interface MenuProps {
  readonly label: string;
  readonly icon: IconName;
  /** Only the icon is shown. */
  readonly isBare?: boolean;
  readonly children: ComponentChildren;
}

export function Menu({ label, icon, isBare = false, children }: MenuProps): JSX.Element {
  const element = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event): void => {
      const menu = element.current;
      if (menu === null || !menu.open) return;
      if (event instanceof KeyboardEvent) closeByKey(menu, event);
      else if (!menu.contains(event.target as Node) || isChoice(event)) menu.open = false;
    };
    document.addEventListener("click", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("click", close);
      document.removeEventListener("keydown", close);
    };
  }, []);
  return (
    <details class="drop" ref={element}>
      <summary class={`btn ${isBare ? "icon" : "sm"}`} aria-label={isBare ? label : undefined}>
        <Icon name={icon} small={!isBare} />
        {isBare ? null : label}
      </summary>
      <div class="drop-body">{children}</div>
    </details>
  );
}

function closeByKey(menu: HTMLDetailsElement, { key }: KeyboardEvent): void {
  if (key !== "Escape") return;
  menu.open = false;
  menu.querySelector("summary")?.focus();
}

function isChoice({ target }: Event): boolean {
  return (target as Element).closest("button.opt, a.opt") !== null;
}
