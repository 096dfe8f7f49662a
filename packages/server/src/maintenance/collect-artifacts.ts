/**
 * After a start, removes files of submissions that a crash kept from becoming a result. It goes on beside
 * everything else, once.
 */
import type { TaskId } from "@codeq/queue";
import type { Clock } from "../clock.ts";
import type { ArtifactFiles, References } from "../store/artifact-files.ts";
import type { Store } from "../store/store.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Job } from "./ticker.ts";

export function collectArtifacts(parts: {
  readonly broker: { readonly store: Store };
  readonly artifacts: ArtifactFiles;
  readonly clock: Clock;
  readonly logger: Logger;
}): Job {
  const { broker, artifacts, clock, logger } = parts;
  let isStarted = false;
  return {
    name: "collect-artifacts",
    nextMs: () => (isStarted ? undefined : clock.monotonicMs()),
    runOnce: async () => {
      isStarted = true;
      artifacts
        .collect((id) => referencesOf(broker.store, id))
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

function referencesOf(store: Store, id: TaskId): References {
  if (!store.holds(id)) return "task is gone";
  const task = store.task(id);
  if (task === undefined) return "cannot be read";
  if (task.place.in !== "done" && task.place.in !== "dead") return [];
  const result = store.wholeResult(task);
  return result === undefined ? "cannot be read" : result.artifacts.map(({ url }) => url);
}
