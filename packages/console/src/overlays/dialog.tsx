/** Dialogs: plain ones, and those that ask to type a name before something cannot be undone. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { curlOf, type Method, urlOf } from "../api.ts";
import { Kbd } from "../parts/basics.tsx";
import { CodeBox } from "../parts/code-box.tsx";
import { Icon } from "../parts/icon.tsx";
import { createStore, useStore } from "../store.ts";

const open = createStore<(() => JSX.Element) | undefined>(undefined);

/** One at a time. */
export function openDialog(content: () => JSX.Element): void {
  open.set(content);
}

export function closeDialog(): void {
  open.set(undefined);
}

export function Dialogs(): JSX.Element | null {
  const Content = useStore(open);
  return Content === undefined ? null : <Content />;
}

interface DialogProps {
  readonly label: string;
  readonly className?: string;
  readonly children: ComponentChildren;
}

/** The focus starts in the first field; Esc and a click beside it close it; the focus goes back. */
export function Dialog({ label, className = "dlg", children }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
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

export interface ShownCall {
  readonly method: Method;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly body?: object | string | undefined;
}

interface ActionProps {
  readonly title: string;
  readonly about?: ComponentChildren;
  readonly children?: ComponentChildren;
  /** Verb and count, such as "Delete 48,112 tasks". */
  readonly button: string;
  readonly icon?: ComponentChildren;
  /** It cannot be undone. */
  readonly isFinal?: boolean;
  /** What has to be typed before. */
  readonly confirm?: string | undefined;
  readonly isReady?: boolean;
  /** What the button will ask of the server. */
  readonly call: ShownCall;
  /** Throws what the server refused with. */
  readonly run: () => Promise<void>;
}

/** Says what it will touch, and does it when the button is pressed. */
export function ActionDialog(props: ActionProps): JSX.Element {
  const [typed, setTyped] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [showsCall, setShowsCall] = useState(false);
  const isConfirmed = props.confirm === undefined || typed === props.confirm;
  const isReady = isConfirmed && props.isReady !== false && !isBusy;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!isReady) return;
    setBusy(true);
    try {
      await props.run();
      closeDialog();
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  const { method, body } = props.call;
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  return (
    <Dialog label={props.title}>
      <form onSubmit={(event) => void submit(event)}>
        <header>
          <h2>{props.title}</h2>
          {props.about === undefined ? null : <p class="muted">{props.about}</p>}
        </header>
        <div class="body">
          {props.children}
          {props.confirm === undefined ? null : (
            <label class="field">
              <span>
                Type <code>{props.confirm}</code> to confirm
              </span>
              <input
                class="input mono"
                autocomplete="off"
                spellcheck={false}
                value={typed}
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            </label>
          )}
          {problem === "" ? null : (
            <p class="note is-bad" role="alert">
              <Icon name="warn" />
              <span>{problem}</span>
            </p>
          )}
          {showsCall ? (
            <CodeBox text={curlOf({ method, url: urlOf(props.call), body: text })} />
          ) : null}
        </div>
        <footer>
          <button class="btn ghost left" type="button" onClick={() => setShowsCall(!showsCall)}>
            <Icon name="api" />
            {showsCall ? "Hide API call" : "Show API call"}
          </button>
          <button class="btn" type="button" onClick={closeDialog}>
            Cancel <Kbd>Esc</Kbd>
          </button>
          <button
            class={`btn ${props.isFinal === true ? "danger solid" : "primary"}`}
            type="submit"
            disabled={!isReady}
            data-first={
              props.confirm === undefined && props.children === undefined ? "" : undefined
            }
          >
            {props.icon}
            {props.button}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
