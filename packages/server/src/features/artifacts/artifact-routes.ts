/** Files of tasks as bodies of requests and answers. */
import type { Readable } from "node:stream";
import type { Artifact, TaskId } from "@codeq/queue";
import { type HttpReply, type HttpRequest, json } from "../../edge/http/route.ts";
import {
  type DownloadArtifactInput,
  type DownloadedArtifact,
  downloadAnyArtifact,
  downloadArtifact,
} from "./download-artifact.ts";
import { type UploadArtifactInput, uploadArtifact } from "./upload-artifact.ts";

export const artifactRoutes = {
  uploadArtifact: {
    operation: uploadArtifact,
    input: ({ params, query, headers, body }: HttpRequest): UploadArtifactInput => {
      const { leaseToken, worker } = query;
      const length = headers["content-length"];
      return {
        id: (params["id"] ?? "") as TaskId,
        name: params["name"] ?? "",
        worker: worker ?? "",
        leaseToken: leaseToken === undefined ? undefined : Number(leaseToken),
        contentType: String(headers["content-type"] ?? ""),
        host: String(headers["host"] ?? ""),
        declaredBytes: typeof length === "string" ? Number(length) : undefined,
        content: body as Readable,
      };
    },
    reply: (artifact: Artifact) => json(JSON.stringify(artifact), 201),
  },
  downloadArtifact: { operation: downloadArtifact, input: fileIn, reply: downloadReply },
  downloadAnyArtifact: { operation: downloadAnyArtifact, input: fileIn, reply: downloadReply },
};

function fileIn({ params, headers }: HttpRequest): DownloadArtifactInput<TaskId> {
  const { range } = headers;
  const asked = typeof range === "string" ? range : "";
  const id = (params["id"] ?? "") as TaskId;
  return { id, name: params["name"] ?? "", range: asked };
}

function downloadReply(downloaded: DownloadedArtifact): HttpReply {
  if ("link" in downloaded) {
    return { status: 307, body: undefined, headers: { location: downloaded.link } };
  }
  const { artifact, content, range, isPart } = downloaded;
  const { from, to } = range;
  const part = { "content-range": `bytes ${from}-${to}/${artifact.bytes}` };
  return {
    status: isPart ? 206 : 200,
    body: content,
    headers: {
      ...headersOf(artifact),
      "content-length": String(to - from + 1),
      ...(isPart ? part : {}),
    },
  };
}

/** A worker chose type and content, so a browser must save the file and not run it. */
function headersOf({ name, contentType, sha256 }: Artifact): Record<string, string> {
  return {
    "content-type": contentType ?? "application/octet-stream",
    "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
    "x-content-type-options": "nosniff",
    "accept-ranges": "bytes",
    "cache-control": "private, max-age=300",
    etag: `"${sha256}"`,
  };
}
