/** Loads the packages of OpenTelemetry only when tracing is on. */
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../logger.ts";
import type { Metrics } from "../metrics.ts";
import { noTracing, type Tracing, type TracingConfig } from "./tracing.ts";

export interface TracingParts {
  readonly config: TracingConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Which one, in the thread of a shard. */
  readonly shard?: number;
}

export async function openTracing(parts: TracingParts): Promise<Tracing> {
  if (!parts.config.tracingEnabled) return noTracing;
  const [{ OtelTracing }, { createExporter }] = await Promise.all([
    import("./otel-tracing.ts"),
    import("./otlp-exporter.ts"),
  ]);
  return new OtelTracing(parts, await createExporter(parts.config));
}
