/**
 * After a start, removes files of submissions that a crash kept from becoming a result. It goes on beside
 * everything else, once.
 */
import type { Queue } from "../broker/queue.ts";
import type { Clock } from "../clock.ts";
import type { ArtifactFiles } from "../store/artifact-files.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Job } from "./ticker.ts";

export function collectArtifacts(parts: {
  readonly queue: Queue;
  readonly artifacts: ArtifactFiles;
  readonly clock: Clock;
  readonly logger: Logger;
}): Job {
  const { queue, artifacts, clock, logger } = parts;
  let isStarted = false;
  return {
    name: "collect-artifacts",
    nextMs: () => (isStarted ? undefined : clock.monotonicMs()),
    runOnce: async () => {
      isStarted = true;
      artifacts
        .collect((id) => queue.artifactsOf(id))
        .then((removed) => {
          if (removed > 0) logger.info("artifacts without a result were removed", { removed });
        })
        .catch((error: unknown) => {
          // They take room and nothing else; the next start tries again.
          logger.warn("artifacts could not be looked through", { error: String(error) });
        });
    },
  };
}
