/**
 * A span that is over, as the exporters of OpenTelemetry take it. Every span of this server is made when what
 * it tells of has ended, so there is no span that can be written to, and a trace that is not kept costs
 * nothing.
 */
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
import type { ReadableSpan } from "@opentelemetry/sdk-trace";

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
