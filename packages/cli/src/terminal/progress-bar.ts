/**
 * The progress of long work, as one line on standard error. Drawn only on a terminal, at most ten times a
 * second, and removed when the work is done.
 */
import type { Clock } from "@codeq/server/command-line";
import type { Output } from "../host.ts";
import { fit } from "./style.ts";
import { count } from "./units.ts";

const redrawMs = 100;
const barColumns = 24;

export interface ProgressOptions {
  readonly output: Output;
  readonly clock: Clock;
  /** What is going on, in one word. */
  readonly title: string;
  /** How much there is to do; undefined when that is not known. */
  readonly total: number | undefined;
}

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
