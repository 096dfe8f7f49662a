/**
 * Files that a worker stores while it has a task. Until the task ends they are in the place of its result; an
 * attempt that comes back without a result loses them.
 */
import { accept, type Outcome, refuse } from "../outcome.ts";
import { checkOwner, type Owner } from "../owner.ts";
import type { Artifact, Task } from "../task.ts";
import type { Submission } from "./complete.ts";

/** A file replaces an earlier one of the same name. */
export function attach(
  task: Task,
  by: Owner,
  artifact: Artifact,
  artifactsMax: number,
): Outcome<Task, "not_owner" | "not_in_progress" | "too_many_artifacts"> {
  const owned = checkOwner(task, by);
  if (!owned.ok) return owned;
  const others = attachedTo(task).filter(({ name }) => name !== artifact.name);
  if (others.length >= artifactsMax) return refuse("too_many_artifacts");
  const artifacts = [...others, artifact];
  return accept({
    ...owned.value,
    storedBytes: task.storedBytes - bytesOf(attachedTo(task)) + bytesOf(artifacts),
    result: { json: "", artifacts },
  });
}

/** The files of the present attempt. */
export function attachedTo({ result }: Task): readonly Artifact[] {
  return result?.artifacts ?? [];
}

/** The task without the files of an attempt that came back. */
export function detached(task: Task): Task {
  if (task.result === undefined) return task;
  const storedBytes = task.storedBytes - bytesOf(attachedTo(task));
  return { ...task, storedBytes, result: undefined };
}

/** The submission with the files that were stored before it; its own files come first. */
export function withAttached(task: Task, submission: Submission): Submission {
  const { artifacts: own, json } = submission.result;
  const names = new Set(own.map(({ name }) => name));
  const before = attachedTo(task);
  const kept = before.filter(({ name }) => !names.has(name));
  const resultBytes = submission.resultBytes + bytesOf(kept) - bytesOf(before);
  return { ...submission, result: { json, artifacts: [...own, ...kept] }, resultBytes };
}

/** The bytes that are stored for a result. */
export function bytesOfResult(json: string, artifacts: readonly Artifact[]): number {
  return utf8Bytes(json) + bytesOf(artifacts);
}

/** The size of files, with their names and URLs. */
function bytesOf(artifacts: readonly Artifact[]): number {
  return artifacts.reduce(
    (sum, { name, url, bytes = 0 }) => sum + bytes + utf8Bytes(name) + utf8Bytes(url),
    0,
  );
}

function utf8Bytes(text: string): number {
  let bytes = 0;
  for (const char of text) {
    const point = char.codePointAt(0) as number;
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  }
  return bytes;
}
