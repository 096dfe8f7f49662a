/** API keys. The text of a key is in the answer to its creation and nowhere else. */

import { endpoints, pageOf, pageQuery } from "../../contract/endpoint.ts";
import { instant, list, object, text, whole } from "../../contract/shape.ts";
import { limits } from "../../limits.ts";

const apiKeyRoles = ["none", "viewer", "admin", "operator"] as const;
const { apiKeyEventTypesMax, apiKeySecondsMax } = limits;
const command = limits.commandPattern.source.slice(1, -1);

/** An unknown field is refused: ignoring it could make a key that may do too much. */
export const CreateApiKeyBody = object(
  {
    name: text("A name for the key.", {
      isRequired: true,
      min: 1,
      max: limits.apiKeyNameCharsMax,
      isLine: true,
      pattern: /\S/,
    }),
    scopes: list(text(), "What the key allows, such as `codeq:claim`.", { none: [] }),
    eventTypes: list(
      text("", { pattern: new RegExp(`^\\s*(\\*|${command})\\s*$`) }),
      "The commands of the key; empty or `*` for all.",
      {
        max: apiKeyEventTypesMax,
        rule: `at most ${apiKeyEventTypesMax} commands, or *`,
        none: [],
      },
    ),
    role: text("`none`, `viewer`, `admin` or `operator`.", {
      pattern: new RegExp(`^\\s*(${apiKeyRoles.join("|")})\\s*$`, "i"),
      rule: `one of ${apiKeyRoles.join(", ")}`,
      none: "none",
    }),
    expiresAt: instant("RFC 3339 time: when the key expires; not together with expiresInSeconds.", {
      isOptional: true,
    }),
    expiresInSeconds: whole("Seconds until the key expires; 0 means never.", {
      min: 0,
      max: apiKeySecondsMax,
      rule: `1 to ${apiKeySecondsMax}`,
      none: 0,
    }),
  },
  { isClosed: true },
);

const fields = {
  id: text(),
  name: text(),
  tenantId: text(),
  role: text("", { oneOf: apiKeyRoles }),
  scopes: list(text()),
  eventTypes: list(text()),
  createdAt: instant(),
  createdBy: text(),
  expiresAt: instant("", { isOptional: true }),
  lastUsedAt: instant("", { isOptional: true }),
};

export const ApiKey = object(fields, { name: "ApiKey" });
export const CreatedApiKey = object(
  { ...fields, token: text("The key; it will not be shown again.") },
  { name: "CreatedApiKey" },
);

const params = { id: text("The id of the key; the key begins with it.") };

export const apiKeys = endpoints({
  createApiKey: {
    key: "POST /admin/keys",
    access: "admin",
    summary: "Create an API key",
    body: CreateApiKeyBody,
    refusals: ["payloads_hidden", "event_type_not_allowed", "too_many_keys"],
    replies: { 201: { about: "The key with its text.", shape: CreatedApiKey } },
  },
  listApiKeys: {
    key: "GET /admin/keys",
    access: "admin",
    summary: "List API keys",
    query: pageQuery(/^[a-z0-9-]{1,63}\/cq_[0-9a-z]{1,32}$/),
    replies: {
      200: { about: "Keys without their text.", shape: pageOf("ApiKeys", "keys", ApiKey) },
    },
  },
  getApiKey: {
    key: "GET /admin/keys/:id",
    access: "admin",
    summary: "Get an API key",
    params,
    refusals: ["not_found"],
    replies: { 200: { about: "The key without its text.", shape: ApiKey } },
  },
  revokeApiKey: {
    key: "DELETE /admin/keys/:id",
    access: "admin",
    summary: "Revoke an API key",
    params,
    refusals: ["not_found"],
    replies: { 204: { about: "The key is refused from now on." } },
  },
});
