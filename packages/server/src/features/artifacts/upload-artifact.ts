/**
 * A file that a worker sends while it holds the task. From then on the file belongs to the task, and to its
 * result if the same attempt submits one; if another worker gets the task, the file is removed.
 */
import { FaultError } from "@codeq/engine";
import { api } from "@codeq/protocol/api";
import type { Artifact } from "@codeq/queue";
import type { OwnedTask, TaskRefusal } from "../../core/broker/verbs.ts";
import { workerIdOf } from "../../edge/access/identity.ts";
import { bindByHand } from "../../edge/bind.ts";
import {
  type Answer,
  type Call,
  type OwnedTaskInput,
  ownedTask,
  refusal,
  type Server,
} from "../../edge/operation.ts";
import { isUnknown, overQuota, refusalOf } from "../../edge/refusal-of.ts";
import { tooLarge } from "./artifacts.ts";

export interface UploadArtifactInput extends OwnedTaskInput {
  readonly name: string;
  /** The name that the worker gave itself on its stream; empty for none. */
  readonly worker: string;
  readonly contentType: string;
  /** The host that the request names. */
  readonly host: string;
  /** The declared length; undefined if the request has none. */
  readonly declaredBytes: number | undefined;
  readonly content: AsyncIterable<Uint8Array>;
}

export const uploadArtifact = bindByHand(api.artifacts.uploadArtifact, {
  run: async (server, call, input: UploadArtifactInput): Promise<Answer<Artifact>> => {
    const { artifacts, broker } = server;
    const { declaredBytes = 0, name } = input;
    if (declaredBytes > artifacts.bytesMax) {
      return refusal("artifact_too_large", tooLarge(name, artifacts.bytesMax));
    }
    const owned = await ownedBy(server, call, input);
    if (!owned.ok) return owned;
    const exceeded = await broker.exceededByBytes(call.identity.tenantId, declaredBytes);
    if (exceeded !== undefined) return overQuota(server, exceeded);
    const stored = await artifacts.upload({ ...owned.value, host: input.host }, input);
    if (!stored.ok) return stored;
    return attach(server, owned.value, stored.value);
  },
});

/** The task and its worker id, which is the named worker of a stream or the subject of the token. */
async function ownedBy(
  { broker }: Server,
  { identity }: Call,
  input: UploadArtifactInput,
): Promise<Answer<OwnedTask>> {
  const named = workerIdOf(identity.subject, input.worker);
  let refused: TaskRefusal = "not_owner";
  for (const workerId of new Set([named, identity.workerId])) {
    const of = ownedTask({ identity: { ...identity, workerId } }, input);
    const may = await broker.mayFinish(of, "completed");
    if (typeof may !== "string") {
      return may.isRepeat ? refusal("not_in_progress") : { ok: true, value: of };
    }
    refused = may;
  }
  return refusal(refused);
}

async function attach(
  server: Server,
  of: OwnedTask,
  {
    artifacts: [artifact],
    settle,
  }: { readonly artifacts: readonly Artifact[]; settle: (isKept: boolean) => Promise<void> },
): Promise<Answer<Artifact>> {
  let isKept = false;
  try {
    const attached = await server.broker.attach(of, artifact as Artifact);
    isKept = attached.ok;
    if (!attached.ok) {
      if (attached.code === "quota_exceeded") return overQuota(server, attached.exceeded);
      return refusal(attached.code);
    }
    if (attached.replaced !== null) await server.artifacts.remove(of.id, attached.replaced);
    return { ok: true, value: artifact as Artifact };
  } catch (error) {
    // A file that the task may name stays; the sweep removes it if the task does not.
    isKept = error instanceof FaultError && isUnknown(refusalOf(server, error));
    throw error;
  } finally {
    await settle(isKept);
  }
}
