/**
 * What travels with its task. To rewrite a short text with every change of the task that is flushed
 * costs less than a key of its own: one entry less in memory, in every flush and in every compaction.
 */
import type { ResultBody } from "@codeq/queue";

/** Longer payloads and results have keys of their own. */
const shortCharsMax = 512;

export function isShort(text: string): boolean {
  return text.length <= shortCharsMax;
}

export function isShortResult({ json, artifacts }: ResultBody): boolean {
  return artifacts.length === 0 && isShort(json);
}
