/** Polls the server, and goes on when the server was away. */
import type { Clock } from "@codeq/server/command-line";
import type { ApiClient } from "../api/api-client.ts";
import type { Call } from "../call.ts";
import { CliError, usageError } from "../cli-error.ts";
import { pause } from "../host.ts";
import { MetricsText, type Snapshot, snapshotOf } from "./metrics.ts";

const intervalMsDefault = 1000;
const intervalMsMin = 100;

export async function lookOnce(api: ApiClient, signal?: AbortSignal): Promise<Snapshot> {
  const reply = await api.metrics({ signal });
  if (reply.status !== 200) throw api.refusal(reply);
  const snapshot = snapshotOf(new MetricsText(reply.text));
  if (snapshot !== undefined) return snapshot;
  throw api.foreign();
}

export function intervalOf(call: Call): number {
  const ms = call.options.durationMs("interval") ?? intervalMsDefault;
  if (ms >= intervalMsMin) return ms;
  throw usageError(`--interval must be at least ${intervalMsMin}ms`);
}

interface LookSteps {
  readonly look: () => Promise<void>;
  readonly away: (error: CliError) => void;
  readonly intervalMs: number;
  readonly signal: AbortSignal;
}

/**
 * Runs `look` at every interval until the signal. The first failure is thrown; later ones, when the
 * server is known to be there, are reported, and `look` is called again.
 */
export async function lookAgain(clock: Clock, steps: LookSteps): Promise<void> {
  const { signal, intervalMs } = steps;
  let hasSeen = false;
  while (!signal.aborted) {
    try {
      await steps.look();
      hasSeen = true;
    } catch (error) {
      if (signal.aborted) return;
      if (!hasSeen || !(error instanceof CliError)) throw error;
      steps.away(error);
    }
    await pause(clock, intervalMs, signal);
  }
}
