/** Files of tasks on their way to a server and back. */
import type { Artifact, ArtifactContent, RunArtifact } from "./artifact.ts";
import type { HttpApi } from "./http/http-api.ts";
import type { TokenSource } from "./line.ts";

type Api = Pick<HttpApi, "ask" | "download">;

export interface UploadedFile {
  readonly taskId: string;
  /** The name of the worker that has it. */
  readonly worker: string;
  readonly leaseToken: number;
  readonly name: string;
  readonly content: ArtifactContent;
  readonly contentType: string | undefined;
  readonly signal: AbortSignal;
}

/** How long storing a file may take. */
const uploadMsMax = 60 * 60 * 1000;

export async function uploadArtifact(
  api: Api,
  token: TokenSource,
  { taskId, worker, leaseToken, name, content, contentType, signal }: UploadedFile,
): Promise<Artifact> {
  return (await api.ask({
    method: "PUT",
    path: `${pathOf(taskId, name)}?leaseToken=${leaseToken}&worker=${encodeURIComponent(worker)}`,
    token: await token(),
    headers: { "content-type": contentType ?? "application/octet-stream" },
    body: piecesOf(content),
    signal,
    waitMs: uploadMsMax,
  })) as Artifact;
}

export async function artifactsOf(
  api: Api,
  token: TokenSource,
  taskId: string,
): Promise<readonly RunArtifact[]> {
  const { signal } = new AbortController();
  const path = `/tasks/${encodeURIComponent(taskId)}/result`;
  const answer = (await api.ask({ path, token: await token(), signal })) as {
    readonly result: { readonly artifacts?: readonly Artifact[] };
  };
  return (answer.result.artifacts ?? []).map((artifact): RunArtifact => {
    const stream = async (): Promise<ReadableStream<Uint8Array>> =>
      api.download({ path: pathOf(taskId, artifact.name), token: await token(), signal });
    return { ...artifact, stream, content: async () => whole(await stream()) };
  });
}

function pathOf(taskId: string, name: string): string {
  return `/tasks/${encodeURIComponent(taskId)}/artifacts/${encodeURIComponent(name)}`;
}

async function* piecesOf(content: ArtifactContent): AsyncGenerator<Uint8Array> {
  if (typeof content === "string") yield Buffer.from(content);
  else if (content instanceof Uint8Array) yield content;
  else yield* content;
}

async function whole(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}
