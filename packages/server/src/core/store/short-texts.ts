/**
 * Short payloads and results are stored inside the task record. Rewriting a short text with every flushed
 * change of the task costs less than a separate key: one entry less in memory, in every flush and in every
 * compaction.
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
