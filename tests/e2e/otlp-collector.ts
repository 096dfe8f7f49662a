/**
 * A collector of traces that reads what it is sent with the official definitions of OTLP, over HTTP and
 * over gRPC, and lets a test wait for spans.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { type handleUnaryCall, Server, ServerCredentials } from "@grpc/grpc-js";

/** The part of what protobufjs makes of the definitions that is used here. */
interface MessageType {
  decode(bytes: Uint8Array): object;
  toObject(message: object, options: object): unknown;
}

interface Definitions {
  readonly opentelemetry: {
    readonly proto: {
      readonly collector: {
        readonly trace: { readonly v1: { readonly ExportTraceServiceRequest: MessageType } };
        readonly metrics: { readonly v1: { readonly ExportMetricsServiceRequest: MessageType } };
      };
    };
  };
}

// The OpenTelemetry project compiled them from its own files.
const { default: definitions } = (await import(
  "otlp-definitions/build/src/generated/root.js"
)) as unknown as { readonly default: Definitions };
const { ExportTraceServiceRequest: requestType } =
  definitions.opentelemetry.proto.collector.trace.v1;

const { ExportMetricsServiceRequest: metricsType } =
  definitions.opentelemetry.proto.collector.metrics.v1;

interface Points {
  readonly dataPoints: readonly {
    readonly attributes?: Pairs;
    readonly asDouble?: number;
    readonly count?: string;
    readonly sum?: number;
    readonly explicitBounds?: readonly number[];
    readonly bucketCounts?: readonly string[];
  }[];
  readonly isMonotonic?: boolean;
}

export interface CollectedMetric {
  readonly name: string;
  readonly description: string;
  readonly sum?: Points;
  readonly gauge?: Points;
  readonly histogram?: Points;
}

interface MetricsRequest {
  readonly resourceMetrics: readonly {
    readonly resource: { readonly attributes: Pairs };
    readonly scopeMetrics: readonly { readonly metrics: readonly CollectedMetric[] }[];
  }[];
}

interface Value {
  readonly stringValue?: string;
  readonly intValue?: string;
  readonly boolValue?: boolean;
  readonly doubleValue?: number;
}

type Pairs = readonly { readonly key: string; readonly value: Value }[];

interface Request {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Pairs };
    readonly scopeSpans: readonly {
      readonly scope: { readonly name: string };
      readonly spans: readonly {
        readonly name: string;
        readonly traceId: Buffer;
        readonly spanId: Buffer;
        readonly parentSpanId?: Buffer;
        readonly startTimeUnixNano: string;
        readonly endTimeUnixNano: string;
        readonly attributes: Pairs;
        readonly status?: { readonly code?: number };
      }[];
    }[];
  }[];
}

export interface CollectedSpan {
  readonly name: string;
  readonly tracer: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly startNano: bigint;
  readonly endNano: bigint;
  readonly attributes: ReadonlyMap<string, unknown>;
  readonly isError: boolean;
  readonly resource: ReadonlyMap<string, unknown>;
}

export class OtlpCollector {
  readonly spans: CollectedSpan[] = [];
  /** Headers of every export. */
  readonly headers: Record<string, string>[] = [];
  /** The last report. */
  metrics: readonly CollectedMetric[] = [];
  #onSpans: () => void = () => {};
  #onMetrics: () => void = () => {};

  takeMetrics(bytes: Uint8Array): void {
    const plain = { longs: String, bytes: Buffer, defaults: false };
    const request = metricsType.toObject(metricsType.decode(bytes), plain) as MetricsRequest;
    this.metrics = request.resourceMetrics.flatMap(({ scopeMetrics }) =>
      scopeMetrics.flatMap(({ metrics }) => metrics),
    );
    this.#onMetrics();
  }

  async untilMetrics(isEnough: (metrics: readonly CollectedMetric[]) => boolean): Promise<void> {
    while (!isEnough(this.metrics)) {
      await new Promise<void>((resolve) => {
        this.#onMetrics = resolve;
      });
    }
  }

  take(bytes: Uint8Array, headers: Record<string, string>): void {
    const plain = { longs: String, bytes: Buffer, defaults: false };
    const request = requestType.toObject(requestType.decode(bytes), plain) as Request;
    this.spans.push(...spansOf(request));
    this.headers.push(headers);
    this.#onSpans();
  }

  /** Resolves when the spans that have come are enough. */
  async until(isEnough: (spans: readonly CollectedSpan[]) => boolean): Promise<void> {
    while (!isEnough(this.spans)) {
      await new Promise<void>((resolve) => {
        this.#onSpans = resolve;
      });
    }
  }
}

function spansOf({ resourceSpans }: Request): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map((span) => ({
        name: span.name,
        tracer: scope.name,
        traceId: span.traceId.toString("hex"),
        spanId: span.spanId.toString("hex"),
        parentSpanId: span.parentSpanId?.toString("hex") ?? "",
        startNano: BigInt(span.startTimeUnixNano),
        endNano: BigInt(span.endTimeUnixNano),
        attributes: valuesOf(span.attributes),
        isError: span.status?.code === 2,
        resource: valuesOf(resource.attributes),
      })),
    ),
  );
}

function valuesOf(pairs: Pairs = []): Map<string, unknown> {
  return new Map(
    pairs.map(({ key, value }) => [
      key,
      value.stringValue ?? value.boolValue ?? value.doubleValue ?? Number(value.intValue),
    ]),
  );
}

export interface ListeningCollector {
  readonly collector: OtlpCollector;
  readonly endpoint: string;
}

export async function collectHttp(t: TestContext): Promise<ListeningCollector> {
  const collector = new OtlpCollector();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.url === "/v1/metrics") {
      collector.takeMetrics(Buffer.concat(chunks));
      response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
      return;
    }
    if (request.url !== "/v1/traces") {
      response.writeHead(404).end();
      return;
    }
    collector.take(Buffer.concat(chunks), request.headers as Record<string, string>);
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { collector, endpoint: `http://127.0.0.1:${port}` };
}

export async function collectGrpc(t: TestContext): Promise<ListeningCollector> {
  const collector = new OtlpCollector();
  const server = new Server();
  const same = (bytes: Buffer): Buffer => bytes;
  const take: handleUnaryCall<Buffer, Buffer> = ({ request, metadata }, answer) => {
    collector.take(request, metadata.getMap() as Record<string, string>);
    answer(null, Buffer.alloc(0));
  };
  const takeMetrics: handleUnaryCall<Buffer, Buffer> = ({ request }, answer) => {
    collector.takeMetrics(request);
    answer(null, Buffer.alloc(0));
  };
  const unary = {
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  } as const;
  const base = "/opentelemetry.proto.collector";
  const path = `${base}.trace.v1.TraceService/Export`;
  server.addService({ export: { ...unary, path } }, { export: take });
  const metricsPath = `${base}.metrics.v1.MetricsService/Export`;
  server.addService({ export: { ...unary, path: metricsPath } }, { export: takeMetrics });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  t.after(() => server.forceShutdown());
  return { collector, endpoint: `127.0.0.1:${port}` };
}
