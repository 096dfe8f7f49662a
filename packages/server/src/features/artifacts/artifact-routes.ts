/** Routes for files of tasks. */
import type { Readable } from "node:stream";
import type { Artifact, TaskId } from "@codeq/queue";
import { numberField, textField } from "../../edge/http/query.ts";
import { type HttpReply, type HttpRequest, json, route } from "../../edge/http/route.ts";
import {
  type DownloadArtifactInput,
  type DownloadedArtifact,
  downloadAnyArtifact,
  downloadArtifact,
} from "./download-artifact.ts";
import { uploadArtifact } from "./upload-artifact.ts";

const path = "/v1/codeq/tasks/:id/artifacts/:name";
const params = { id: "The id of the task.", name: "The name of the file." };
/** Shared by both routes that answer with a file. */
const download = {
  about:
    "Range requests are answered with the part. Files in object storage are answered with a redirect.",
  replies: {
    200: { about: "The file.", type: "application/octet-stream" },
    206: { about: "The part of the file that Range asks for.", type: "application/octet-stream" },
    307: {
      about: "The file is at the Location for the next five minutes.",
      headers: { Location: "Where the file is." },
    },
  },
  reply: downloadReply,
} as const;
const ofDownloads = ["task_not_found", "artifact_not_found", "range_not_satisfiable"] as const;

export const artifactRoutes = [
  route({
    method: "PUT",
    path,
    operation: uploadArtifact,
    name: "uploadArtifact",
    summary: "Store a file that belongs to a task",
    about:
      "The body is the file, with its Content-Type. Only the worker that has the task can do this. The file " +
      "is part of the result that the same attempt submits; a second one of the same name replaces the first.",
    params,
    query: {
      leaseToken: numberField(
        "The fencing token of the claim. If present, the request only succeeds for the attempt with this token.",
      ),
      worker: textField("The name that the worker gave in the Hello of its stream."),
    },
    replies: { 201: { about: "The file as the result will name it.", schema: "Artifact" } },
    refusals: [
      "invalid_argument",
      "task_unknown",
      "not_owner",
      "not_in_progress",
      "artifact_too_large",
      "too_many_artifacts",
      "quota_exceeded",
      "artifacts_unavailable",
    ],
    isUpload: true,
    input: ({ params, query, headers, body }) => {
      const { leaseToken, worker } = query;
      const length = headers["content-length"];
      return {
        ok: true,
        value: {
          id: (params["id"] ?? "") as TaskId,
          name: params["name"] ?? "",
          worker: worker ?? "",
          leaseToken: leaseToken === undefined ? undefined : Number(leaseToken),
          contentType: String(headers["content-type"] ?? ""),
          declaredBytes: typeof length === "string" ? Number(length) : undefined,
          content: body as Readable,
        },
      };
    },
    reply: (artifact) => json(JSON.stringify(artifact), 201),
  }),
  route({
    method: "GET",
    path,
    operation: downloadArtifact,
    name: "downloadArtifact",
    summary: "Get a file that belongs to a result",
    ...download,
    params,
    query: { upload: textField("Stands in the URL that a result has; not looked at.") },
    refusals: ofDownloads,
    input: (request) => {
      const { id, ...file } = fileIn(request);
      return { ok: true, value: { id: id as TaskId, ...file } };
    },
  }),
  route({
    method: "GET",
    path: "/v1/codeq/admin/tasks/:id/artifacts/:name",
    operation: downloadAnyArtifact,
    name: "downloadAnyArtifact",
    summary: "Get a file that belongs to a result, as an administrator",
    ...download,
    params: {
      ...params,
      id: "The id of the task, or the beginning or end of it if that is unique.",
    },
    refusals: [...ofDownloads, "not_found", "ambiguous_id"],
    input: (request) => ({ ok: true, value: fileIn(request) }),
  }),
] as const;

function fileIn({ params, headers }: HttpRequest): DownloadArtifactInput<string> {
  const { range } = headers;
  const asked = typeof range === "string" ? range : "";
  return { id: params["id"] ?? "", name: params["name"] ?? "", range: asked };
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
