/** Files that belong to results. */

import { type ApiRequest, requestOf } from "@codeq/protocol";
import { type AskApi, call } from "../api-calls.ts";
import type { Artifact } from "../api-types.ts";
import type { TokenSource } from "../connection/connection.ts";
import type { HttpApi } from "../http/http-api.ts";

/** A file that a result names, and how to read it. */
export interface RunArtifact extends Artifact {
  /** The content, piece by piece. Rejects for a link, which the server does not keep. */
  stream(): Promise<ReadableStream<Uint8Array>>;
  /** All of the content. */
  content(): Promise<Uint8Array>;
  /** The content as text in UTF-8. */
  text(): Promise<string>;
}

/** What a file is made of: text, bytes, or a stream of bytes. */
export type ArtifactContent = string | Uint8Array | AsyncIterable<Uint8Array>;

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
  const sent = {
    token: await token(),
    headers: { "content-type": contentType ?? "application/octet-stream" },
    body: piecesOf(content),
    signal,
    waitMs: uploadMsMax,
  };
  return call((request) => api.ask({ ...request, ...sent }), "PUT /tasks/:id/artifacts/:name", {
    params: { id: taskId, name },
    query: { leaseToken, worker },
  });
}

export async function artifactsOf(
  api: Api,
  token: TokenSource,
  taskId: string,
): Promise<readonly RunArtifact[]> {
  const { signal } = new AbortController();
  const sent = { token: await token(), signal };
  const ask: AskApi = (request) => api.ask({ ...request, ...sent });
  const { result } = await call(ask, "GET /tasks/:id/result", { params: { id: taskId } });
  return (result.artifacts ?? []).map((artifact): RunArtifact => {
    const stream = async (): Promise<ReadableStream<Uint8Array>> =>
      api.download({ ...fileOf(taskId, artifact), token: await token(), signal });
    const all = async (): Promise<Response> => new Response(await stream());
    const content = async (): Promise<Uint8Array> =>
      new Uint8Array(await (await all()).arrayBuffer());
    return { ...artifact, stream, content, text: async () => (await all()).text() };
  });
}

function fileOf(taskId: string, { name }: Artifact): ApiRequest {
  return requestOf("GET /tasks/:id/artifacts/:name", { params: { id: taskId, name } });
}

async function* piecesOf(content: ArtifactContent): AsyncGenerator<Uint8Array> {
  if (typeof content === "string") yield new TextEncoder().encode(content);
  else if (content instanceof Uint8Array) yield content;
  else yield* content;
}
