/** The settings of tracing with OpenTelemetry. */
import { choice, type Parser, parsed, refused, text, trueOrFalse } from "./parsers.ts";
import { type SettingRow, seconds } from "./setting-row.ts";
import type { TracingSettings } from "./settings.ts";

const share: Parser<number> = {
  accepts: "a number from 0 to 1",
  example: "0.01",
  parse(raw) {
    const value = typeof raw === "string" && /^\d*\.?\d+$/.test(raw.trim()) ? Number(raw) : raw;
    const isShare = typeof value === "number" && value >= 0 && value <= 1;
    return isShare ? parsed(value) : refused(`expected ${this.accepts}`);
  },
};

const pairs = (example: string): Parser<string> =>
  text({
    accepts: "name=value pairs separated by commas",
    example,
    test: (list) => list.split(",").every((pair) => /^\s*[^=\s]+\s*=/.test(pair)),
  });

export const tracingSettings: {
  readonly [K in keyof TracingSettings]: SettingRow<TracingSettings[K]>;
} = {
  tracingEnabled: {
    env: ["TRACING_ENABLED"],
    parser: trueOrFalse,
    initial: false,
    about: "Whether spans of requests, tasks and webhooks are sent to an OpenTelemetry collector.",
  },
  tracingServiceName: {
    env: ["TRACING_SERVICE_NAME", "OTEL_SERVICE_NAME"],
    parser: text({ accepts: "non-empty text", example: "codeq" }),
    initial: "codeq",
    about: "Name of this server in traces (`service.name`).",
  },
  tracingOtlpEndpoint: {
    env: ["TRACING_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"],
    parser: text({
      accepts: "host:port, or a URL that begins with http:// or https://",
      example: "localhost:4317",
      test: (address) => URL.canParse(/^https?:\/\//.test(address) ? address : `http://${address}`),
    }),
    initial: "localhost:4317",
    about:
      "Address of the collector; with `http/protobuf` the server posts spans to its path `/v1/traces`.",
  },
  tracingOtlpProtocol: {
    env: ["OTEL_EXPORTER_OTLP_PROTOCOL"],
    parser: choice(["grpc", "http/protobuf"]),
    initial: "grpc",
    about:
      "Protocol of the collector: OTLP over `grpc`, usually on port 4317, or `http/protobuf`, usually on port 4318.",
  },
  tracingOtlpInsecure: {
    env: ["TRACING_OTLP_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"],
    parser: trueOrFalse,
    initial: false,
    about: "Whether spans are sent without TLS if tracingOtlpEndpoint has no http:// or https://.",
  },
  tracingOtlpHeaders: {
    env: ["OTEL_EXPORTER_OTLP_HEADERS"],
    parser: pairs("authorization=..."),
    initial: "",
    initialInWords: "none",
    secret: true,
    about: "Headers for the collector, as name=value pairs separated by commas.",
  },
  tracingSampleRatio: {
    env: ["TRACING_SAMPLE_RATIO", "OTEL_TRACES_SAMPLER_ARG"],
    parser: share,
    initial: 1,
    about: "Share of traces that are sampled if the caller made no sampling decision.",
  },
  metricsOtlpEnabled: {
    parser: trueOrFalse,
    initial: false,
    about:
      "Whether the measurements of `/metrics` are also sent to the collector that tracingOtlpEndpoint names.",
  },
  metricsOtlpIntervalSeconds: {
    ...seconds(1, 3600, 60),
    about: "How often the measurements are sent to the collector.",
  },
  tracingResourceAttributes: {
    env: ["OTEL_RESOURCE_ATTRIBUTES"],
    parser: pairs("deployment.region=eu"),
    initial: "",
    initialInWords: "none",
    about: "Further attributes of this server in traces, as name=value pairs separated by commas.",
  },
};
