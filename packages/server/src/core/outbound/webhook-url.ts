/** Checks the URLs that tenants give, before anything is sent to them. */
import { isIP } from "node:net";
import { urlToHttpOptions } from "node:url";
import { limits } from "@codeq/protocol";
import type { Config } from "../../config/settings.ts";
import { isPublicAddress } from "./public-addresses.ts";

/** Whether the HTTP client can use the URL. */
function isWebhookUrl(text: string): boolean {
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

/**
 * What is wrong with the URL of a task or a subscription: it cannot be used, or it obviously leads to a private
 * network. Names are resolved, and judged again, whenever something is sent.
 */
export function problemOfUrl(
  what: "webhook" | "callback",
  text: string,
  { webhookAllowPrivateNetworks }: Pick<Config, "webhookAllowPrivateNetworks">,
): string | undefined {
  if (!isWebhookUrl(text)) return `invalid ${what} url`;
  if (webhookAllowPrivateNetworks) return undefined;
  const host = new URL(text).hostname.replace(/^\[|\]$/g, "");
  const isLocalName = /(^|\.)localhost\.?$/i.test(host);
  const isInside = isIP(host) === 0 ? isLocalName : !isPublicAddress(host);
  if (!isInside) return undefined;
  return (
    `invalid ${what} url: ${host} is a loopback or private address; ` +
    "set webhookAllowPrivateNetworks to allow it"
  );
}
