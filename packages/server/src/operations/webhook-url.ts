/** Checks the URL for a result: URLs that the HTTP client cannot use are refused here. */
import { urlToHttpOptions } from "node:url";
import { limits } from "@codeq/protocol";

export function isWebhookUrl(text: string): boolean {
  if (text.length > limits.webhookCharsMax) return false;
  const url = URL.parse(text);
  if (url === null || url.hostname === "" || url.port === "0") return false;
  if (url.protocol !== "http:" && url.protocol !== "https:") return false;
  try {
    // What the HTTP client does with a URL; it throws for credentials that are not valid UTF-8.
    urlToHttpOptions(url);
    return true;
  } catch {
    // The only question is whether it can be done.
    return false;
  }
}
