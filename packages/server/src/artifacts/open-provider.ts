/** The store of artifacts that the configuration asks for. What S3 needs is loaded only then. */
import type { Clock } from "../clock.ts";
import type { ArtifactSettings } from "../config/settings.ts";
import type { ArtifactProvider } from "./artifact-provider.ts";
import { LocalArtifacts } from "./local-artifacts.ts";

export async function openArtifactProvider(
  settings: ArtifactSettings,
  clock: Clock,
): Promise<ArtifactProvider> {
  if (settings.artifactProvider === "local") return new LocalArtifacts(settings.localArtifactsDir);
  const { S3Artifacts } = await import("./s3-artifacts.ts");
  return new S3Artifacts(settings, clock);
}
