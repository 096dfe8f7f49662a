/**
 * The answers to the parts of a batch. Some of it may be durable when the storage refuses the rest,
 * so each part tells for itself; when nothing was taken the batch is refused as a whole.
 */
import type { MaybePromise } from "../maybe-promise.ts";
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
