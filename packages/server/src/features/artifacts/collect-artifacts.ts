/**
 * Removes files that no task names: of submissions that a crash interrupted, and of attempts that came back.
 * It runs after a start and from time to time, in the background.
 */

import type { Config } from "../../config/settings.ts";
import type { Queue } from "../../core/broker/queue.ts";
import type { Clock } from "../../core/clock.ts";
import type { Job } from "../../core/sweeps/ticker.ts";
import type { Logger } from "../../telemetry/logger.ts";
import type { Artifacts } from "./artifacts.ts";

export function collectArtifacts(parts: {
  readonly queue: Queue;
  readonly artifacts: Artifacts;
  readonly config: Config;
  readonly clock: Clock;
  readonly logger: Logger;
}): Job {
  const { queue, artifacts, clock, logger, config } = parts;
  const everyMs = config.artifactSweepSeconds * 1000;
  let nextMs: number | undefined = clock.monotonicMs();
  return {
    name: "collect-artifacts",
    nextMs: () => nextMs,
    runOnce: async () => {
      nextMs = everyMs > 0 ? clock.monotonicMs() + everyMs : undefined;
      artifacts
        .collect((id) => queue.artifactsOf(id))
        .then((removed) => {
          if (removed > 0) logger.info("artifacts without a result were removed", { removed });
        })
        .catch((error: unknown) => {
          // They take room and nothing else; the next sweep tries again.
          logger.warn("artifacts could not be checked", { error: String(error) });
        });
    },
  };
}
