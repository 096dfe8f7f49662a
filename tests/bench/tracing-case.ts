/**
 * What tracing adds to a cycle, in a process of its own: one broker whose changes are told to no tracing, to
 * one that keeps some traces and to one that keeps all, in turns of a tenth of a second. What else happens on
 * the machine lasts longer than that, so it is part of all of them. Takes the directory and a JSON argument,
 * writes a JSON line.
 */
import type { Change, WorkerId } from "@codeq/queue";
import { settingTable } from "../../packages/server/src/config/setting-table.ts";
import { systemClock } from "../../packages/server/src/core/clock.ts";
import { createLogger } from "../../packages/server/src/telemetry/logger.ts";
import { createMetrics } from "../../packages/server/src/telemetry/metrics.ts";
import { openTracing } from "../../packages/server/src/telemetry/tracing/open-telemetry.ts";
import type { TracingConfig } from "../../packages/server/src/telemetry/tracing/tracing.ts";
import { median } from "./figures.ts";
import { cycleOne, openBroker } from "./open-broker.ts";

export interface TracingCaseOptions {
  readonly directory: string;
  /** Of the collector. */
  readonly port: number;
  readonly shares: readonly number[];
  readonly turns: number;
}

/** CPU time of a cycle without tracing, and what each share adds to it. */
export interface TracingCaseResult {
  readonly offUs: number;
  readonly addedUs: readonly number[];
}

const turnMs = 100;
const warmUpTurns = 20;
const inFlight = 256;

const options = JSON.parse(process.argv[2] ?? "{}") as TracingCaseOptions;
let tell: (change: Change) => void = () => {};
const { broker, engine } = await openBroker(options.directory, {
  ...{ mode: "fsync", flushMiB: 6 },
  observe: (change) => tell(change),
});
const off = (): void => {};
const tellers = [off, ...(await Promise.all(options.shares.map(openTeller)))];
const rounds: number[][] = [];
for (let turn = 0; turn < warmUpTurns + options.turns; turn++) {
  const usOf = [];
  for (const teller of tellers) usOf.push(await cpuUsWith(teller));
  if (turn >= warmUpTurns) rounds.push(usOf);
}
await engine[Symbol.asyncDispose]();
const result: TracingCaseResult = {
  offUs: median(rounds.map(([us]) => us)) ?? Number.NaN,
  addedUs: options.shares.map(
    (_, index) =>
      median(rounds.map((us) => (us[index + 1] as number) - (us[0] as number))) ?? Number.NaN,
  ),
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));

async function openTeller(share: number): Promise<(change: Change) => void> {
  const initial = Object.fromEntries(
    Object.entries(settingTable).map(([name, row]) => [name, row.initial]),
  ) as unknown as TracingConfig;
  const config: TracingConfig = {
    ...initial,
    tracingEnabled: true,
    tracingSampleRatio: share,
    tracingOtlpProtocol: "http/protobuf",
    tracingOtlpEndpoint: `http://127.0.0.1:${options.port}`,
  };
  const clock = systemClock;
  const logger = createLogger({
    ...{ level: "error", format: "json", write: console.error },
    nowMs: () => clock.nowMs(),
  });
  const metrics = createMetrics({ commandsMax: 5 });
  const tracing = await openTracing({ config, clock, logger, metrics });
  return (change) => tracing.changed(change);
}

async function cpuUsWith(teller: (change: Change) => void): Promise<number> {
  tell = teller;
  const endAt = performance.now() + turnMs;
  const before = process.cpuUsage();
  let cycles = 0;
  const client = async (workerId: WorkerId): Promise<void> => {
    while (performance.now() < endAt) {
      await cycleOne(broker, workerId);
      cycles += 1;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, (_, i) => client(`w${i}` as WorkerId)));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / cycles;
}
