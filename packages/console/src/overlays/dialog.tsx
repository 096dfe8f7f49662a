/** Dialogs: plain ones, those that act, and those that ask to type a name before something cannot be undone. */
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { curlOf, type Request } from "../api.ts";
import { CodeBox, Kbd, Problem } from "../parts/basics.tsx";
import { Button } from "../parts/buttons.tsx";
import { TextField } from "../parts/fields.tsx";
import { Icon, type IconName } from "../parts/icon.tsx";
import { createStore, useStore } from "../store.ts";
import { tellProblem } from "../toasts.tsx";

const open = createStore<JSX.Element | null>(null);

/** Only one dialog is open at a time. */
export function openDialog(content: JSX.Element): void {
  open.set(content);
}

export function closeDialog(): void {
  open.set(null);
}

export function Dialogs(): JSX.Element | null {
  return useStore(open);
}

interface DialogProps {
  readonly label: string;
  readonly className?: string;
  readonly children: ComponentChildren;
}

/** Focuses its first field. Esc or a click outside closes the dialog and restores the focus. */
export function Dialog({ label, className = "dlg", children }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  // Before the next event: keys pressed right after the dialog opens belong to the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (dialog === null) return undefined;
    dialog.showModal();
    dialog.querySelector<HTMLElement>("[data-first], input, textarea, select")?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes it too; the browser sees to that.
    <dialog
      ref={element}
      class={className}
      aria-label={label}
      onClose={closeDialog}
      onClick={(event) => {
        if (event.target === element.current) closeDialog();
      }}
    >
      {children}
    </dialog>
  );
}

interface TextProps {
  readonly title: string;
  readonly about?: ComponentChildren;
  readonly children?: ComponentChildren;
}

function Head({ title, about }: TextProps): JSX.Element {
  return (
    <header>
      <h2>{title}</h2>
      {about === undefined ? null : <p class="muted">{about}</p>}
    </header>
  );
}

export function InfoDialog(
  props: TextProps & { readonly close?: JSX.Element; readonly more?: ComponentChildren },
): JSX.Element {
  return (
    <Dialog label={props.title}>
      <Head {...props} />
      <div class="body">{props.children}</div>
      <footer class="row wrap">
        {props.more}
        {props.close ?? (
          <Button onClick={closeDialog} data-first="">
            Close <Kbd>Esc</Kbd>
          </Button>
        )}
      </footer>
    </Dialog>
  );
}

/** Shows a text that the server sends only once, after the dialog that created the text has closed. */
export function showOnce(title: string, label: string, text: string): void {
  const close = (
    <Button class="primary" data-first="" onClick={closeDialog}>
      Done
    </Button>
  );
  setTimeout(() =>
    openDialog(
      <InfoDialog title={title} about="Copy it now, it won't be shown again." close={close}>
        <CodeBox text={text} label={label} />
      </InfoDialog>,
    ),
  );
}

interface ActionProps extends TextProps {
  /** Verb and count, such as "Delete 48,112 tasks". */
  readonly button: string;
  readonly icon?: IconName;
  /** The action cannot be undone. */
  readonly isFinal?: boolean;
  /** The text to type before the button works. */
  readonly confirm?: string | undefined;
  readonly isReady?: boolean;
  readonly call: Request;
  /** Throws the error of the server. */
  readonly run: () => Promise<void>;
}

/** Describes an action, and runs the action when the user confirms. */
export function ActionDialog(props: ActionProps): JSX.Element {
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [showsCall, setShowsCall] = useState(false);
  const [own] = useState(open.get);
  const isConfirmed = props.confirm === undefined || typed === props.confirm;
  const isReady = isConfirmed && props.isReady !== false && !isBusy;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!isReady) return;
    setBusy(true);
    try {
      await props.run();
      // The user may have opened another dialog in the meantime.
      if (open.get() === own) closeDialog();
    } catch (error) {
      if (open.get() !== own) tellProblem(error);
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  const confirmLabel = (
    <>
      Type <code>{props.confirm}</code> to confirm
    </>
  );
  return (
    <Dialog label={props.title}>
      <form onSubmit={(event) => void submit(event)}>
        <Head {...props} />
        <div class="body">
          {props.children}
          {props.confirm === undefined ? null : (
            <TextField label={confirmLabel} isCode value={typed} onChange={setTyped} />
          )}
          <Problem text={problem} />
          {showsCall ? <CodeBox text={curlOf(props.call)} /> : null}
        </div>
        <footer class="row wrap">
          <Button class="ghost left" icon="api" onClick={() => setShowsCall(!showsCall)}>
            {showsCall ? "Hide API call" : "Show API call"}
          </Button>
          <Button onClick={closeDialog}>
            Cancel <Kbd>Esc</Kbd>
          </Button>
          <Button
            class={props.isFinal === true ? "danger solid" : "primary"}
            {...(props.icon === undefined ? {} : { icon: props.icon })}
            type="submit"
            disabled={!isReady}
            data-first={
              props.confirm === undefined && props.children === undefined ? "" : undefined
            }
          >
            {props.button}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

export function Effects({ of }: { of: readonly (readonly [IconName, ComponentChildren])[] }) {
  return (
    <ul class="checks">
      {of.map(([icon, text]) => (
        <li key={icon}>
          <Icon name={icon} />
          <span>{text}</span>
        </li>
      ))}
    </ul>
  );
}

interface BlastProps {
  readonly count: string;
  readonly what: string;
  readonly note?: string;
}

export function Blast({ count, what, note }: BlastProps): JSX.Element {
  return (
    <div class="blast">
      <div class="big">
        <b>{count}</b>
        <span>{what}</span>
        {note === undefined ? null : <span class="faint">{note}</span>}
      </div>
    </div>
  );
}
