/** A file of a result: all of it, a part of it, or a link to it. */
import type { Readable } from "node:stream";
import { api } from "@codeq/protocol/api";
import type { Artifact, TaskId } from "@codeq/queue";
import { bindByHand } from "../../edge/bind.ts";
import { type Answer, refusal } from "../../edge/operation.ts";
import { wholeId } from "../../edge/task-filter-input.ts";
import type { ByteRange } from "./artifact-provider.ts";

export interface DownloadArtifactInput<Id extends string> {
  readonly id: Id;
  readonly name: string;
  /** The Range header of the request; empty for the whole file. */
  readonly range: string;
}

export type DownloadedArtifact =
  | { readonly link: string }
  | {
      readonly artifact: Artifact;
      readonly content: Readable;
      readonly range: ByteRange;
      readonly isPart: boolean;
    };

export const downloadArtifact = bindByHand(api.artifacts.downloadArtifact, {
  showsPayloads: true,
  run: async (
    { broker, artifacts },
    call,
    { id, name, range: asked }: DownloadArtifactInput<TaskId>,
  ): Promise<Answer<DownloadedArtifact>> => {
    const { tenantId } = call.identity;
    if ((await broker.get(tenantId, id)) === undefined) return refusal("task_not_found");
    const result = await broker.result(tenantId, id);
    const artifact = result?.artifacts.find((each) => each.name === name && isOurs(each));
    if (artifact === undefined) return refusal("artifact_not_found");
    const link = await artifacts.link(id, artifact);
    if (link !== undefined) return { ok: true, value: { link } };
    const bytes = artifact.bytes ?? 0;
    const part = partOf(asked, bytes);
    if (!part.ok) return part;
    const range = part.value ?? { from: 0, to: bytes - 1 };
    const content = await artifacts.open({ tenantId, id }, artifact, range);
    if (content === undefined) return refusal("artifact_not_found");
    if (content === "crowded") {
      return refusal("overloaded", "too many artifacts are being downloaded; try again");
    }
    return { ok: true, value: { artifact, content, range, isPart: part.value !== undefined } };
  },
});

/** The same for administrators, who may name another tenant and shorten the id. */
export const downloadAnyArtifact = bindByHand(api.artifacts.downloadAnyArtifact, {
  showsPayloads: true,
  run: async (server, call, input: DownloadArtifactInput<string>) => {
    const id = await wholeId(server, call, input.id);
    return id.ok ? downloadArtifact.run(server, call, { ...input, id: id.value }) : id;
  },
});

/** Whether the server stores the file; otherwise the artifact is a link. */
function isOurs({ sha256 }: Artifact): boolean {
  return sha256 !== undefined;
}

/** Undefined for the whole file, which is also the answer to several ranges and to an invalid header. */
function partOf(asked: string, bytes: number): Answer<ByteRange | undefined> {
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(asked.trim()) ?? [];
  if (first === "" && last === "") return { ok: true, value: undefined };
  const from = first === "" ? Math.max(0, bytes - Number(last)) : Number(first);
  const to = first === "" || last === "" ? bytes - 1 : Math.min(Number(last), bytes - 1);
  if (from >= bytes || (first === "" && Number(last) === 0)) {
    return { ...refusal("range_not_satisfiable"), details: { bytes } };
  }
  return { ok: true, value: to < from ? undefined : { from, to } };
}
