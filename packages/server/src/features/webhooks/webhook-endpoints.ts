/** Endpoints of webhooks that fail or are disabled, and how to enable them again. */
import { limits } from "@codeq/protocol";
import type { FailingEndpoint } from "../../core/records/endpoint-record.ts";
import { type Operation, refusal } from "../../edge/operation.ts";

export const listEndpoints: Operation<undefined, readonly FailingEndpoint[]> = {
  name: "list_webhook_endpoints",
  access: "viewer",
  scope: undefined,
  audit: { of: "other tenants" },
  run: async ({ queue }, call) => {
    const endpoints = await queue.webhooks.endpoints(call.identity.tenantId);
    return { ok: true, value: endpoints.toSorted((a, b) => (a.url < b.url ? -1 : 1)) };
  },
};

export interface EndpointInput {
  readonly url: string;
}

export const enableEndpoint: Operation<EndpointInput, EndpointInput> = {
  name: "enable_webhook_endpoint",
  access: "admin",
  scope: undefined,
  rate: { scope: "admin", operation: "tasks" },
  audit: { of: "all", target: ({ url }) => url },
  run: async ({ queue }, call, { url }) => {
    if (url.length > limits.webhookCharsMax || !URL.canParse(url)) {
      return refusal("invalid_argument", "invalid 'url' (give the URL of an endpoint)");
    }
    const isEnabled = await queue.webhooks.enable(call.identity.tenantId, url);
    return isEnabled ? { ok: true, value: { url } } : refusal("endpoint_not_found");
  },
};
