/** What those see from whom payloads and results are hidden. */
import type { Result, Task } from "@codeq/queue";
import { type Call, type Refusal, refusal } from "./operation.ts";
import type { FilterInput } from "./task-filter-input.ts";

/** The task without its payload and the stacks of its workers, where the caller must not see them. */
export function shownTask<T extends Task>({ identity }: Pick<Call, "identity">, task: T): T {
  if (!identity.hidesPayloads) return task;
  const { trail } = task;
  if (trail === undefined) return { ...task, payload: undefined };
  const attempts = trail.attempts.map((each) => ({ ...each, stack: "" }));
  return { ...task, payload: undefined, trail: { ...trail, attempts } };
}

/** How the task ended, without what its worker gave back. */
export function shownResult({ identity }: Pick<Call, "identity">, result: Result): Result {
  return identity.hidesPayloads ? { ...result, resultJson: "", artifacts: [] } : result;
}

/** Searching payloads would let a caller guess what is in them. */
export function problemOfSearch(
  { identity }: Pick<Call, "identity">,
  { payload }: FilterInput,
): Refusal | undefined {
  if (payload === undefined || !identity.hidesPayloads) return undefined;
  return refusal("payloads_hidden", "payloads are hidden from this token; leave 'payload' away");
}
