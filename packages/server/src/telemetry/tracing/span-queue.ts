/**
 * Spans on their way to the collector. One batch at a time is sent; new spans wait, up to a limit. Spans
 * that a slow or missing collector does not accept are lost and counted; nothing waits for them.
 */
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import type { Clock } from "../../core/clock.ts";

const batchMax = 512;
const waitingMax = 4096;
const delayMs = 1000;
/** How long a shutdown waits for the collector. */
const lastMs = 1000;
/** As `ExportResultCode` of OpenTelemetry has it. */
const success = 0;

export interface SpanQueueParts {
  readonly exporter: SpanExporter;
  readonly clock: Clock;
  readonly onSent: (spans: number) => void;
  readonly onLost: (spans: number, why: string) => void;
}

export class SpanQueue {
  readonly #parts: SpanQueueParts;
  #waiting: ReadableSpan[] = [];
  #sending: Promise<void> | undefined;
  #cancel: (() => void) | undefined;
  #isClosed = false;

  constructor(parts: SpanQueueParts) {
    this.#parts = parts;
  }

  add(span: ReadableSpan): void {
    if (this.#isClosed || this.#waiting.length >= waitingMax) {
      this.#parts.onLost(1, "too many spans are waiting for the collector");
      return;
    }
    this.#waiting.push(span);
    this.#plan();
  }

  /** Sends what waits, as long as the collector takes it. */
  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0 || this.#sending !== undefined) {
      this.#send();
      await this.#sending;
    }
  }

  async shutdown(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    const { clock, exporter, onLost } = this.#parts;
    let cancel = (): void => {};
    const over = new Promise<void>((resolve) => {
      cancel = clock.after(lastMs, resolve);
    });
    await Promise.race([this.#sendAll(), over]);
    cancel();
    const left = this.#waiting.length;
    this.#waiting = [];
    if (left > 0) onLost(left, "the server stops");
    // It waits for what it is sending, which may take long; nobody needs that any more.
    exporter.shutdown().catch(() => {});
  }

  #plan(): void {
    if (this.#sending !== undefined) return;
    if (this.#waiting.length >= batchMax) this.#send();
    else this.#cancel ??= this.#parts.clock.after(delayMs, () => this.#send());
  }

  #send(): void {
    if (this.#sending !== undefined) return;
    this.#cancel?.();
    this.#cancel = undefined;
    const batch = this.#waiting.splice(0, batchMax);
    if (batch.length === 0) return;
    this.#sending = this.#export(batch).finally(() => {
      this.#sending = undefined;
      if (this.#waiting.length > 0 && !this.#isClosed) this.#plan();
    });
  }

  #export(batch: ReadableSpan[]): Promise<void> {
    const { exporter, onSent, onLost } = this.#parts;
    return new Promise((resolve) => {
      const end = (error: unknown): void => {
        if (error === undefined) onSent(batch.length);
        else onLost(batch.length, String((error as Error).message ?? error));
        resolve();
      };
      try {
        exporter.export(batch, ({ code, error }) =>
          end(code === success ? undefined : (error ?? new Error("the collector refused them"))),
        );
      } catch (error) {
        // Whatever goes wrong with spans is no reason for anything else to fail.
        end(error);
      }
    });
  }
}
