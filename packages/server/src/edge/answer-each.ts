/**
 * The answers to the items of a batch. Some items may be durable when the storage refuses the rest, so each
 * item has its own answer; when no item was accepted, the whole batch is refused.
 */
import type { MaybePromise } from "../core/maybe-promise.ts";
import type { Answer } from "./operation.ts";
import { isFault } from "./refusal-of.ts";

export async function answerEach<T>(
  parts: readonly MaybePromise<Answer<T>>[],
): Promise<Answer<readonly Answer<T>[]>> {
  const value = await Promise.all(parts);
  const [first] = value;
  return first !== undefined && isFault(first) && value.every(isFault)
    ? first
    : { ok: true, value };
}
