/** Files that belong to tasks and their results. Requests and answers that are files are read and written by hand. */
import { endpoints } from "../../contract/endpoint.ts";
import { count, decimal, object, text } from "../../contract/shape.ts";

export const Artifact = object(
  {
    name: text(),
    url: text("Where it is: below the server's address unless the server knows how it is reached."),
    bytes: count("Of a file that the server keeps; a link has none of these.", {
      isOptional: true,
    }),
    sha256: text("The hash of the content, in hexadecimal digits.", { isOptional: true }),
    contentType: text("", { isOptional: true }),
  },
  { name: "Artifact", about: "A file that a result names." },
);

const id = text("The id of the task.");
const name = text("The name of the file.");
const type = "application/octet-stream";

/** Shared by both endpoints that answer with a file. */
const download = {
  about:
    "Range requests are answered with the part. Files in object storage are answered with a redirect.",
  replies: {
    200: { about: "The file.", type },
    206: { about: "The part of the file that Range asks for.", type },
    307: {
      about: "The file is at the Location for the next five minutes.",
      headers: { Location: "Where the file is." },
    },
  },
} as const;
const ofDownloads = ["task_not_found", "artifact_not_found", "range_not_satisfiable"] as const;

export const artifacts = endpoints({
  uploadArtifact: {
    key: "PUT /tasks/:id/artifacts/:name",
    access: "worker",
    scope: "codeq:result",
    summary: "Store a file that belongs to a task",
    about:
      "The body is the file, with its Content-Type. Only the worker that has the task can do this. The file " +
      "is part of the result that the same attempt submits; a second one of the same name replaces the first.",
    params: { id, name },
    query: {
      leaseToken: decimal(
        "The fencing token of the claim. If present, the request only succeeds for the attempt with this token.",
        { isOptional: true },
      ),
      worker: text("The name that the worker gave in the Hello of its stream.", { none: "" }),
    },
    isUpload: true,
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
    replies: { 201: { about: "The file as the result will name it.", shape: Artifact } },
  },
  downloadArtifact: {
    key: "GET /tasks/:id/artifacts/:name",
    access: "either",
    summary: "Get a file that belongs to a result",
    ...download,
    params: { id, name },
    query: {
      upload: text("Stands in the URL that a result has; not looked at.", { isOptional: true }),
    },
    refusals: ofDownloads,
  },
  downloadAnyArtifact: {
    key: "GET /admin/tasks/:id/artifacts/:name",
    access: "viewer",
    summary: "Get a file that belongs to a result, as an administrator",
    ...download,
    params: {
      id: text("The id of the task, or the beginning or end of it if that is unique."),
      name,
    },
    refusals: [...ofDownloads, "not_found", "ambiguous_id"],
  },
});
