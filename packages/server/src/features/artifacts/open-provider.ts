/** Opens the artifact store that the configuration names. The code for S3 is loaded only when it is used. */

import type { Config } from "../../config/settings.ts";
import type { Clock } from "../../core/clock.ts";
import type { ArtifactProvider } from "./artifact-provider.ts";
import { LocalArtifacts } from "./local-artifacts.ts";

export async function openArtifactProvider(
  settings: Config,
  clock: Clock,
): Promise<ArtifactProvider> {
  if (settings.artifactProvider === "local") return new LocalArtifacts(settings.localArtifactsDir);
  const { S3Artifacts } = await import("./s3-artifacts.ts");
  return new S3Artifacts(settings, clock);
}
