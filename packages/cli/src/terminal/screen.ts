/**
 * A full screen that is redrawn without flicker, on the alternate screen of the terminal. Leaving it
 * restores the previous screen.
 */
import type { Host } from "../host.ts";
import { fit } from "./style.ts";

const enter = "\x1b[?1049h\x1b[?25l\x1b[2J";
const leave = "\x1b[?25h\x1b[?1049l";

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
