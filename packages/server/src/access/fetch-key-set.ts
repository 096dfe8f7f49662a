/**
 * Fetches the text of a key set over HTTP. Redirects are not followed, because keys from elsewhere would be
 * trusted like keys from the configured URL.
 */
import { requestText } from "./request-text.ts";

/** Rejects when the text cannot be had; the reason goes to the log. */
export type FetchKeySet = (url: string, signal: AbortSignal) => Promise<string>;

export const fetchKeySet: FetchKeySet = async (url, signal) => {
  const { status, text } = await requestText({ url }, signal);
  if (status !== 200) throw new Error(`the answer has the status ${status}`);
  return text;
};
