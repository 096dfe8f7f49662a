/** Loads what sends metrics to a collector when that is asked for, and only then. */
import type { TracingConfig } from "../tracing/tracing.ts";
import type { MetricExportParts } from "./export-metrics.ts";

/** Where the collector is, and who this is, is the same as for spans. */
export interface MetricExportConfig extends TracingConfig {
  readonly metricsOtlpEnabled: boolean;
  readonly metricsOtlpIntervalSeconds: number;
}

export async function openMetricExport(parts: MetricExportParts): Promise<AsyncDisposable> {
  if (!parts.config.metricsOtlpEnabled) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  const [{ MetricExport }, { createMetricExporter }] = await Promise.all([
    import("./export-metrics.ts"),
    import("../tracing/otlp-exporter.ts"),
  ]);
  return new MetricExport(parts, await createMetricExporter(parts.config));
}
