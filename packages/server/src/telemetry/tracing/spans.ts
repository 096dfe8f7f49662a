/** Ended spans, and the queue in which they wait for the collector. */
import {
  type Attributes,
  type HrTime,
  type Link,
  type SpanContext,
  type SpanKind,
  type SpanStatus,
  SpanStatusCode,
} from "@opentelemetry/api";
import type { Resource } from "@opentelemetry/resources";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import type { Clock } from "../../core/clock.ts";

export interface SpanParts {
  readonly name: string;
  readonly kind: SpanKind;
  readonly context: SpanContext;
  /** Undefined for the first span of a trace. */
  readonly parent: SpanContext | undefined;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly isError: boolean;
  readonly error?: string;
}

const nothing: never[] = [];
const unset: SpanStatus = { code: SpanStatusCode.UNSET };
const failed: SpanStatus = { code: SpanStatusCode.ERROR };

/**
 * An ended span, as the exporters of OpenTelemetry read it. The server creates a span only when the work that it
 * describes has ended, so there are no open spans, and a trace that is not sampled costs nothing.
 */
export class EndedSpan implements ReadableSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly parentSpanContext?: SpanContext;
  readonly startTime: HrTime;
  readonly endTime: HrTime;
  readonly duration: HrTime;
  readonly status: SpanStatus;
  readonly attributes: Attributes;
  readonly resource: Resource;
  readonly instrumentationScope: { readonly name: string };
  readonly ended = true;
  readonly links: Link[] = nothing;
  readonly events = nothing;
  readonly droppedAttributesCount = 0;
  readonly droppedEventsCount = 0;
  readonly droppedLinksCount = 0;
  readonly #context: SpanContext;

  constructor(parts: SpanParts, scope: { readonly name: string }, resource: Resource) {
    const endMs = Math.max(parts.startMs, parts.endMs);
    this.name = parts.name;
    this.kind = parts.kind;
    this.#context = parts.context;
    if (parts.parent !== undefined) this.parentSpanContext = parts.parent;
    this.startTime = hrTime(parts.startMs);
    this.endTime = hrTime(endMs);
    this.duration = hrTime(endMs - parts.startMs);
    this.status = statusOf(parts);
    this.attributes = parts.attributes;
    this.resource = resource;
    this.instrumentationScope = scope;
  }

  spanContext = (): SpanContext => this.#context;
}

function statusOf({ isError, error }: SpanParts): SpanStatus {
  if (!isError) return unset;
  return error === undefined ? failed : { code: SpanStatusCode.ERROR, message: error };
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}

const batchMax = 512;
const waitingMax = 4096;
const delayMs = 1000;
/** How long a shutdown waits for the collector. */
const lastMs = 1000;
/** The value of `ExportResultCode.SUCCESS` of OpenTelemetry. */
const success = 0;

interface SpanQueueParts {
  readonly exporter: SpanExporter;
  readonly clock: Clock;
  readonly onSent: (spans: number) => void;
  readonly onLost: (spans: number, why: string) => void;
}

/**
 * Spans on their way to the collector. One batch at a time is sent; new spans wait, up to a limit. Spans
 * that a slow or missing collector does not accept are lost and counted; nothing waits for them.
 */
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

  /** Sends the waiting spans, batch after batch. */
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
    // The exporter waits for its open requests, which may take long; the server does not wait for it.
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
        // A failed export must not fail anything else.
        end(error);
      }
    });
  }
}
