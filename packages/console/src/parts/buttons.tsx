/** Buttons: plain ones, those that change something, and one that opens a menu. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { mayAct, readOnlyReason, session } from "../session.ts";
import { useStore } from "../store.ts";
import { Icon, type IconName } from "./icon.tsx";

interface ButtonProps extends Omit<JSX.IntrinsicElements["button"], "class" | "icon"> {
  /** Classes beside `btn`, such as `sm danger`. */
  readonly class?: string;
  readonly icon?: IconName;
}

export function Button({ class: look = "", icon, children, ...rest }: ButtonProps): JSX.Element {
  return (
    <button type="button" {...rest} class={`btn ${look}`}>
      {icon === undefined ? null : <Icon name={icon} small={look.split(" ").includes("sm")} />}
      {children}
    </button>
  );
}

/** A button that changes something: disabled for viewers, with a title that says why. */
export function Act(props: ButtonProps): JSX.Element {
  useStore(session);
  return mayAct() ? <Button {...props} /> : <Button {...props} disabled title={readOnlyReason} />;
}

interface MenuProps {
  readonly label: string;
  readonly icon: IconName;
  readonly isBare?: boolean;
  readonly children: ComponentChildren;
}

/** A button that opens a menu; Esc or a click outside closes the menu. */
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
      <div class="drop-body float">{children}</div>
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
