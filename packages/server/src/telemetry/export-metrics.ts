/**
 * Sends the measurements to an OpenTelemetry collector from time to time: those of `/metrics`, with the same
 * names and labels. A report that the collector does not accept is lost; the next report has all totals.
 */
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type PushMetricExporter,
} from "@opentelemetry/sdk-metrics";
import type { Config } from "../config/settings.ts";
import type { Clock } from "../core/clock.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import { type Logger, SpacedWarnings } from "./logger.ts";
import { type ScrapedMetric, scrapedMetrics } from "./scrape.ts";
import { resourceOf, type TracingConfig } from "./tracing/tracing.ts";

/** Address of the collector and name of this server are the same as for spans. */
type MetricExportConfig = TracingConfig &
  Pick<Config, "metricsOtlpEnabled" | "metricsOtlpIntervalSeconds">;

export interface MetricExportParts {
  readonly config: MetricExportConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly scrape: () => MaybePromise<string>;
}

const endMsMax = 1000;

/** From a wall clock in milliseconds. */
type Instant = [seconds: number, nanoseconds: number];

export class MetricExport implements AsyncDisposable {
  readonly #parts: MetricExportParts;
  readonly #exporter: PushMetricExporter;
  readonly #warnings: SpacedWarnings;
  readonly #started: Instant;
  #cancel: () => void = () => {};
  #isClosed = false;

  constructor(parts: MetricExportParts, exporter: PushMetricExporter) {
    this.#parts = parts;
    this.#exporter = exporter;
    this.#warnings = new SpacedWarnings(parts.logger, parts.clock);
    this.#started = instantOf(parts.clock.nowMs());
    this.#plan();
  }

  #plan(): void {
    const { clock, config } = this.#parts;
    if (this.#isClosed) return;
    this.#cancel = clock.after(config.metricsOtlpIntervalSeconds * 1000, () => {
      void this.#send().finally(() => this.#plan());
    });
  }

  async #send(): Promise<void> {
    const { config, clock, scrape } = this.#parts;
    try {
      const metrics = scrapedMetrics(await scrape());
      const now = instantOf(clock.nowMs());
      const data = metrics.map((each) => dataOf(each, this.#started, now));
      const why = await this.#exported(data, config);
      if (why !== undefined) this.#warnings.warn("metrics were not taken", { why });
    } catch (error) {
      this.#warnings.warn("metrics were not sent", { why: String(error) });
    }
  }

  /** Returns why the collector did not accept the metrics; undefined if it did. */
  #exported(metrics: MetricData[], config: MetricExportConfig): Promise<string | undefined> {
    const resource = resourceFromAttributes(resourceOf(config));
    const scopeMetrics = [{ scope: { name: "codeq" }, metrics }];
    return new Promise((resolve) => {
      this.#exporter.export({ resource, scopeMetrics }, ({ code, error }) =>
        resolve(code === 0 ? undefined : (error?.message ?? "no reason given")),
      );
    });
  }

  /** Sends a last report. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancel();
    const end = (async (): Promise<void> => {
      await this.#send();
      await this.#exporter.shutdown().catch(() => {});
    })();
    await Promise.race([end, this.#patience()]);
  }

  /** A collector that does not answer must not delay the shutdown. */
  #patience(): Promise<void> {
    return new Promise((resolve) => {
      this.#parts.clock.after(endMsMax, resolve);
    });
  }
}

function instantOf(ms: number): Instant {
  return [Math.floor(ms / 1000), Math.floor(ms % 1000) * 1_000_000];
}

function dataOf(metric: ScrapedMetric, startTime: Instant, endTime: Instant): MetricData {
  const descriptor = { name: metric.name, description: metric.help, unit: "", valueType: 1 };
  const about = { descriptor, aggregationTemporality: AggregationTemporality.CUMULATIVE };
  if (metric.type === "histogram") {
    const dataPoints = metric.histograms.map(({ labels, bounds, counts, sum, count }) => ({
      startTime,
      endTime,
      attributes: labels,
      value: { buckets: { boundaries: [...bounds], counts: [...counts] }, sum, count },
    }));
    return { ...about, dataPointType: DataPointType.HISTOGRAM, dataPoints };
  }
  const dataPoints = metric.points.map(({ labels, value }) => ({
    startTime,
    endTime,
    attributes: labels,
    value,
  }));
  if (metric.type === "gauge") return { ...about, dataPointType: DataPointType.GAUGE, dataPoints };
  return { ...about, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints };
}
