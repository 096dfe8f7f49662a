/**
 * Opens what sends spans and metrics to an OpenTelemetry collector, with the official exporters. Their packages are
 * loaded only when they are used; they read further `OTEL_*` variables.
 */
import type { Metadata } from "@grpc/grpc-js";
import type { PushMetricExporter } from "@opentelemetry/sdk-metrics";
import type { SpanExporter } from "@opentelemetry/sdk-trace";
import type { MetricExportParts } from "../export-metrics.ts";
import {
  noTracing,
  pairsOf,
  type Tracing,
  type TracingConfig,
  type TracingParts,
} from "./tracing.ts";

export async function openTracing(parts: TracingParts): Promise<Tracing> {
  if (!parts.config.tracingEnabled) return noTracing;
  const { OtelTracing } = await import("./otel-tracing.ts");
  return new OtelTracing(parts, await createSpanExporter(parts.config));
}

export async function openMetricExport(parts: MetricExportParts): Promise<AsyncDisposable> {
  if (!parts.config.metricsOtlpEnabled) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  const { MetricExport } = await import("../export-metrics.ts");
  return new MetricExport(parts, await createMetricExporter(parts.config));
}

async function createMetricExporter(config: TracingConfig): Promise<PushMetricExporter> {
  const url = endpointOf(config);
  const headers = pairsOf(config.tracingOtlpHeaders);
  if (config.tracingOtlpProtocol === "http/protobuf") {
    const { OTLPMetricExporter } = await import("@opentelemetry/exporter-metrics-otlp-proto");
    return new OTLPMetricExporter({ url: new URL("v1/metrics", `${url}/`).href, headers });
  }
  const { OTLPMetricExporter } = await import("@opentelemetry/exporter-metrics-otlp-grpc");
  return new OTLPMetricExporter({ url, metadata: await metadataOf(headers) });
}

async function createSpanExporter(config: TracingConfig): Promise<SpanExporter> {
  const url = endpointOf(config);
  const headers = pairsOf(config.tracingOtlpHeaders);
  if (config.tracingOtlpProtocol === "http/protobuf") {
    const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
    return new OTLPTraceExporter({ url: new URL("v1/traces", `${url}/`).href, headers });
  }
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-grpc");
  return new OTLPTraceExporter({ url, metadata: await metadataOf(headers) });
}

async function metadataOf(headers: Readonly<Record<string, string>>): Promise<Metadata> {
  // A CommonJS package: in a bundle, only its default export has its members.
  const { default: grpc } = await import("@grpc/grpc-js");
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name.toLowerCase(), value);
  return metadata;
}

/** A URL without a slash at its end; without a scheme, the setting decides about TLS. */
function endpointOf({ tracingOtlpEndpoint: endpoint, tracingOtlpInsecure }: TracingConfig): string {
  const whole = /^https?:\/\//.test(endpoint)
    ? endpoint
    : `${tracingOtlpInsecure ? "http" : "https"}://${endpoint}`;
  return whole.replace(/\/+$/, "");
}
