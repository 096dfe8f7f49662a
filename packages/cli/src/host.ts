/**
 * The environment of a command: streams, variables, time and signals. They are passed in, so that a test can
 * run a command in its own process and read its output.
 */
import type { Clock } from "@codeq/server/command-line";

export interface Output {
  /** A person looks at it: colours and redrawing make sense. */
  readonly isTerminal: boolean;
  readonly columns: number;
  readonly rows: number;
  write(text: string): void;
  /** Calls back when the size changes; returns how to stop that. */
  onResize(run: () => void): () => void;
}

export interface Input {
  readonly isTerminal: boolean;
  /** Pieces of text as they come, up to the end. */
  text(): AsyncIterable<string>;
  /** Calls back with every key without waiting for a line; returns how to stop that. */
  onKey(run: (key: string) => void): () => void;
}

export interface Host {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly directory: string;
  /** Where a user's own files are. */
  readonly home: string;
  readonly clock: Clock;
  readonly output: Output;
  readonly errors: Output;
  readonly input: Input;
  /** How the user starts this program, for commands that are printed to be pasted. */
  readonly program: string;
  /** Aborts on the first request to stop; a second one ends the process. Asking is what arms it. */
  stopped(): AbortSignal;
  random(bytes: number): Buffer;
}

/** Waits for time to pass, or for a signal, whichever comes first. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    signal.addEventListener("abort", end);
  });
}
