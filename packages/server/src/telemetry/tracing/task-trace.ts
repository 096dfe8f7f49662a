/**
 * The trace of a task. It is the trace of the producer if the producer sent a context. Otherwise it is
 * derived from the id of the task, so that all threads and all restarts agree without storing it: the trace
 * id is the task id, and the span of the creation has its second half.
 */

import type { Task } from "@codeq/queue";
import { createTraceState, type SpanContext, TraceFlags } from "@opentelemetry/api";
import type { SentContext } from "./tracing.ts";

const parentPattern = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const none = /^0+$/;

/** Undefined if there is no context or an invalid one. */
export function remoteContext({ traceParent, traceState }: SentContext): SpanContext | undefined {
  const [, traceId = "", spanId = "", flags = ""] = parentPattern.exec(traceParent ?? "") ?? [];
  if (traceId === "" || none.test(traceId) || none.test(spanId)) return undefined;
  return {
    traceId,
    spanId,
    isRemote: true,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    ...(traceState ? { traceState: createTraceState(traceState) } : {}),
  };
}

export function ownContext({ id }: Pick<Task, "id">): SpanContext {
  const traceId = id.replaceAll("-", "");
  return { traceId, spanId: traceId.slice(16), isRemote: true, traceFlags: TraceFlags.SAMPLED };
}

/**
 * Whether this share of all traces includes the one of this id, which is the id of a task or of a trace. Random
 * digits near its end decide. Most are not kept, so this is asked for every change of every task: it makes
 * neither the id of a trace nor a context.
 */
export function isInShare(id: string, share: number): boolean {
  const end = id.length - unusedDigits;
  let number = 0;
  for (let at = end - usedDigits; at < end; at++) {
    const code = id.charCodeAt(at);
    number = number * 16 + (code < letterA ? code - digitZero : code - letterA + 10);
  }
  return number < share * 16 ** usedDigits;
}

/** The last group of a task id has twelve digits. */
const usedDigits = 7;
const unusedDigits = 12 - usedDigits;
const digitZero = 48;
const letterA = 97;

/** The context as a header. */
export function parentHeader({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`;
}
