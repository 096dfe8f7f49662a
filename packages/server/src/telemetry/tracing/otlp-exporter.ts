/** The official exporters, with the settings of this server. They read further `OTEL_*` variables. */
import type { Metadata } from "@grpc/grpc-js";
import type { PushMetricExporter } from "@opentelemetry/sdk-metrics";
import type { SpanExporter } from "@opentelemetry/sdk-trace";
import type { TracingConfig } from "./tracing.ts";

export async function createMetricExporter(config: TracingConfig): Promise<PushMetricExporter> {
  const url = endpointOf(config);
  const headers = pairsOf(config.tracingOtlpHeaders);
  if (config.tracingOtlpProtocol === "http/protobuf") {
    const { OTLPMetricExporter } = await import("@opentelemetry/exporter-metrics-otlp-proto");
    return new OTLPMetricExporter({ url: new URL("v1/metrics", `${url}/`).href, headers });
  }
  const { OTLPMetricExporter } = await import("@opentelemetry/exporter-metrics-otlp-grpc");
  return new OTLPMetricExporter({ url, metadata: await metadataOf(headers) });
}

export async function createExporter(config: TracingConfig): Promise<SpanExporter> {
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
  // A package of the older kind: in a bundle, its parts are found in its default export only.
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

/** `a=1,b=2`, with values as in URLs; the syntax of OpenTelemetry's own variables. */
export function pairsOf(text: string): Record<string, string> {
  const pairs = text.split(",").flatMap((pair) => {
    const at = pair.indexOf("=");
    return at < 0 ? [] : [[pair.slice(0, at).trim(), decoded(pair.slice(at + 1).trim())]];
  });
  return Object.fromEntries(pairs);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // It was not meant that way; then it is what is written.
    return text;
  }
}
