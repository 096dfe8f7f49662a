/** The URLs of stored artifacts, and the keys inside them. */
import type { Artifact, TaskId } from "@codeq/queue";
import type { ArtifactKey } from "./artifact-provider.ts";

const uploadPattern = /^[0-9a-f]{16}$/;
const base = "http://any.invalid";

/** A path when the server does not know how clients reach it. */
export function artifactUrl(externalUrl: string, { id, upload, name }: ArtifactKey): string {
  const path = `/v1/codeq/tasks/${id}/artifacts/${encodeURIComponent(name)}?upload=${upload}`;
  return externalUrl.replace(/\/$/, "") + path;
}

/** The key of an artifact of this task; undefined for one that is somewhere else. */
export function artifactKey(id: TaskId, { name, url, sha256 }: Artifact): ArtifactKey | undefined {
  if (sha256 === undefined) return undefined;
  const upload = URL.parse(url, base)?.searchParams.get("upload") ?? "";
  return uploadPattern.test(upload) ? { id, upload, name } : undefined;
}
