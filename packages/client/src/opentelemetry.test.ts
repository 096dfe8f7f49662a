import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { after, test } from "node:test";
import {
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  type TextMapPropagator,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { task } from "./client.ts";
import { openTelemetry } from "./opentelemetry.ts";
import { testServer } from "./test-server/index.ts";
import { Permanent } from "./worker/outcome.ts";

interface Recorded {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly attributes: SpanOptions["attributes"];
  status: number | undefined;
  isEnded: boolean;
}

/** As little of a tracing library as the API needs: contexts, ids and the W3C header. */
class Recorder implements ContextManager, TextMapPropagator, Pick<Tracer, "startActiveSpan"> {
  readonly spans: Recorded[] = [];
  readonly #current = new AsyncLocalStorage<Context>();
  #lastId = 0;

  active(): Context {
    return this.#current.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    now: Context,
    run: F,
    self?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#current.run(now, () => run.apply(self, args));
  }

  bind<T>(_context: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }

  inject(from: Context, carrier: Record<string, string>): void {
    const span = trace.getSpanContext(from);
    if (span !== undefined) carrier["traceparent"] = `00-${span.traceId}-${span.spanId}-01`;
  }

  extract(into: Context, carrier: Record<string, string>): Context {
    const [, traceId, spanId] = (carrier["traceparent"] ?? "").split("-");
    if (traceId === undefined || spanId === undefined) return into;
    return trace.setSpanContext(into, { traceId, spanId, traceFlags: 1, isRemote: true });
  }

  fields(): string[] {
    return ["traceparent"];
  }

  startActiveSpan(name: string, ...args: unknown[]): never {
    const options = args[0] as SpanOptions;
    const run = args.at(-1) as (span: Span) => never;
    const parent = trace.getSpanContext(this.active());
    this.#lastId += 1;
    const id = String(this.#lastId);
    const recorded: Recorded = {
      name,
      attributes: options.attributes,
      parentId: parent?.spanId,
      traceId: parent?.traceId ?? id.padStart(32, "0"),
      spanId: id.padStart(16, "0"),
      status: undefined,
      isEnded: false,
    };
    this.spans.push(recorded);
    const { traceId, spanId } = recorded;
    const span = {
      spanContext: () => ({ traceId, spanId, traceFlags: 1 }),
      recordException: () => {},
      setStatus: ({ code }: { code: number }) => {
        recorded.status = code;
      },
      end: () => {
        recorded.isEnded = true;
      },
    } as unknown as Span;
    return this.with(trace.setSpan(this.active(), span), () => run(span));
  }
}

function record(): Recorder {
  const recorder = new Recorder();
  context.setGlobalContextManager(recorder);
  propagation.setGlobalPropagator(recorder);
  trace.setGlobalTracerProvider({ getTracer: () => recorder as unknown as Tracer });
  return recorder;
}

after(() => {
  context.disable();
  propagation.disable();
  trace.disable();
});

test("a span around enqueue is the parent of the one around the handler, and so on", async () => {
  const recorder = record();
  await using server = await testServer();
  const client = server.newClient({ tracing: openTelemetry() });
  const first = task<null, string>("first");
  const second = task<null, string>("second");
  client.worker(
    [
      first.handle(async () => (await client.enqueue(second, null)).id),
      second.handle(() => {
        throw new Permanent("no");
      }),
    ],
    { on: { failed: () => {} } },
  );
  const run = await client.enqueue(first, null);
  await server.runUntilIdle({ within: "1s" });
  const shown = recorder.spans.map(({ name, parentId, traceId, isEnded }) => ({
    name,
    isEnded,
    trace: Number(traceId),
    parent: Number(parentId ?? 0),
  }));
  assert.deepEqual(shown, [
    { name: "enqueue first", isEnded: true, trace: 1, parent: 0 },
    { name: "handle first", isEnded: true, trace: 1, parent: 1 },
    { name: "enqueue second", isEnded: true, trace: 1, parent: 2 },
    { name: "handle second", isEnded: true, trace: 1, parent: 3 },
  ]);
  assert.deepEqual(
    recorder.spans.map(({ status }) => status),
    [undefined, undefined, undefined, 2],
  );
  assert.equal(recorder.spans[1]?.attributes?.["messaging.message.id"], run.id);
});
