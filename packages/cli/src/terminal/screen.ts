/** Output that is redrawn on a terminal: a full screen, and a progress bar. */

import type { Clock } from "@codeq/server/command-line";
import type { Host, Output } from "../host.ts";
import { fit } from "./style.ts";
import { count } from "./units.ts";

const enter = "\x1b[?1049h\x1b[?25l\x1b[2J";
const leave = "\x1b[?25h\x1b[?1049l";

/**
 * A full screen that is redrawn without flicker, on the alternate screen of the terminal. Leaving it
 * restores the previous screen.
 */
export class Screen implements Disposable {
  readonly #host: Host;
  readonly #undo: (() => void)[];
  readonly #quit = new AbortController();
  #lines: readonly string[] = [];

  constructor(host: Host) {
    this.#host = host;
    host.output.write(enter);
    const stopped = host.stopped();
    const onStop = (): void => this.#quit.abort();
    stopped.addEventListener("abort", onStop);
    if (stopped.aborted) onStop();
    this.#undo = [
      () => stopped.removeEventListener("abort", onStop),
      host.output.onResize(() => this.#redraw()),
      host.input.onKey((key) => {
        // Ctrl-C arrives as a key while keys are read one by one.
        if (key === "q" || key === "Q" || key === "\x03" || key === "\x1b") this.#quit.abort();
      }),
    ];
  }

  /** Aborts when the user wants to leave. */
  get quit(): AbortSignal {
    return this.#quit.signal;
  }

  draw(lines: readonly string[]): void {
    this.#lines = lines;
    this.#redraw();
  }

  #redraw(): void {
    const { columns, rows } = this.#host.output;
    const shown = this.#lines.slice(0, rows).map((line) => `${fit(line, columns)}\x1b[K`);
    this.#host.output.write(`\x1b[H${shown.join("\r\n")}\x1b[J`);
  }

  [Symbol.dispose](): void {
    for (const undo of this.#undo) undo();
    this.#host.output.write(leave);
  }
}

const redrawMs = 100;
const barColumns = 24;

interface ProgressOptions {
  readonly output: Output;
  readonly clock: Clock;
  /** What is going on, in one word. */
  readonly title: string;
  /** How much there is to do; undefined when that is not known. */
  readonly total: number | undefined;
}

/**
 * The progress of long work, as one line on standard error. Drawn only on a terminal, at most ten times a
 * second, and removed when the work is done.
 */
export class ProgressBar implements Disposable {
  readonly #options: ProgressOptions;
  readonly #startedMs: number;
  #drawnMs = Number.NEGATIVE_INFINITY;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#startedMs = options.clock.monotonicMs();
  }

  set(done: number): void {
    const { output, clock } = this.#options;
    if (!output.isTerminal) return;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#drawnMs < redrawMs) return;
    this.#drawnMs = nowMs;
    const line = progressLine(this.#options, done, nowMs - this.#startedMs);
    output.write(`\r${fit(line, output.columns - 1)}\x1b[K`);
  }

  [Symbol.dispose](): void {
    if (this.#drawnMs > 0) this.#options.output.write("\r\x1b[K");
  }
}

export function progressLine(
  { title, total }: Pick<ProgressOptions, "title" | "total">,
  done: number,
  elapsedMs: number,
): string {
  const perSecond = elapsedMs > 0 ? `${count((done * 1000) / elapsedMs)}/s` : "";
  if (total === undefined || total === 0) return `${title}  ${count(done)}  ${perSecond}`;
  const share = Math.min(1, done / total);
  const filled = Math.floor(share * barColumns);
  const bar = "█".repeat(filled) + "░".repeat(barColumns - filled);
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  return `${title}  ${bar} ${percent}  ${count(done)} of ${count(total)}  ${perSecond}`;
}
