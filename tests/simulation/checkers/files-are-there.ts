/** A file that a result names is there, and in the end there is none that no task names. */
import type { Artifact, TaskId } from "@codeq/queue";
import { artifactKey } from "../../../packages/server/src/features/artifacts/artifact-provider.ts";
import { resultBodiesOf, type StoreView } from "../store-view.ts";
import type { MakeChecker } from "./checker.ts";

export const filesAreThere: MakeChecker = ({ world, report }) => ({
  looked: (view) => {
    for (const [id, artifact] of namedIn(view)) {
      const key = artifactKey(id, artifact);
      if (key !== undefined && !world.artifacts.has(key)) {
        report(`${id} names ${artifact.name}, which is gone`);
      }
    }
  },
  ended: (view) => {
    const named = new Set<string>();
    for (const [id, artifact] of namedIn(view)) named.add(artifactKey(id, artifact)?.upload ?? "");
    for (const { id, upload } of world.artifacts.old()) {
      if (!view.tasks.has(id) || !named.has(upload)) report(`a file of ${id} belongs to nobody`);
    }
  },
});

function* namedIn({ keys, tasks }: StoreView): Generator<readonly [TaskId, Artifact]> {
  for (const task of tasks.values()) {
    for (const { artifacts } of resultBodiesOf(keys, task)) {
      for (const artifact of artifacts) yield [task.id, artifact];
    }
  }
}
