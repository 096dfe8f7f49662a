/** Checks a URL for notifications: URLs that obviously lead to a private network are refused here. */
import { isIP } from "node:net";
import type { Config } from "../config/settings.ts";
import { isPublicAddress } from "../public-addresses.ts";
import { type Refusal, refusal } from "./operation.ts";
import { isWebhookUrl } from "./webhook-url.ts";

/** Names are resolved, and judged again, whenever something is sent. */
export function problemOfCallbackUrl(
  text: string,
  { webhookAllowPrivateNetworks }: Pick<Config, "webhookAllowPrivateNetworks">,
): Refusal | undefined {
  if (!isWebhookUrl(text)) return refusal("invalid_argument", "invalid callback url");
  if (webhookAllowPrivateNetworks) return undefined;
  const host = new URL(text).hostname.replace(/^\[|\]$/g, "");
  const isLocalName = /(^|\.)localhost\.?$/i.test(host);
  const isInside = isIP(host) === 0 ? isLocalName : !isPublicAddress(host);
  if (!isInside) return undefined;
  return refusal(
    "invalid_argument",
    `invalid callback url: ${host} is a loopback or private address; ` +
      "set webhookAllowPrivateNetworks to allow it",
  );
}
