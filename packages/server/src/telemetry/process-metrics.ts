/** Metrics of the process, read only at a scrape. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Metrics } from "./metrics.ts";

export interface ProcessProbe {
  readonly startedAtMs: number;
  readonly memory: () => { readonly rss: number; readonly heapUsed: number };
  readonly cpuSeconds: () => number;
  /** Lateness of the event loop since the last call, 99th percentile. */
  readonly lagSeconds: () => number;
}

export function collectProcessMetrics(metrics: Metrics, probe: ProcessProbe): void {
  metrics.processResidentMemoryBytes.collect(() => [[probe.memory().rss]]);
  metrics.heapUsedBytes.collect(() => [[probe.memory().heapUsed]]);
  metrics.processCpuSeconds.collect(() => [[probe.cpuSeconds()]]);
  metrics.processStartTimeSeconds.collect(() => [[probe.startedAtMs / 1000]]);
  metrics.eventLoopLagSeconds.collect(() => [[probe.lagSeconds()]]);
}

const resolutionMs = 20;
const nanosPerSecond = 1e9;

/** The probe of this process. It holds a timer until it is disposed of. */
export function openProcessProbe(startedAtMs: number): ProcessProbe & Disposable {
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  delay.enable();
  return {
    startedAtMs,
    memory: () => process.memoryUsage(),
    cpuSeconds: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1e6;
    },
    lagSeconds: () => {
      // What is measured is the time between two ticks of a timer; its own period is no lateness.
      const lateNanos = delay.count === 0 ? 0 : delay.percentile(99) - resolutionMs * 1e6;
      delay.reset();
      return Math.max(0, lateNanos) / nanosPerSecond;
    },
    [Symbol.dispose]: () => void delay.disable(),
  };
}
