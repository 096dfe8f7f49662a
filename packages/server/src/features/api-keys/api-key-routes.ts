/** Routes for API keys. The text of a key is in the answer to its creation and nowhere else. */
import type { KnownApiKey } from "../../edge/access/api-keys.ts";
import { CreateApiKeyBody } from "../../edge/http/bodies.ts";
import type { BodyOf } from "../../edge/http/json-body.ts";
import type { JsonCodec } from "../../edge/http/json-codec.ts";
import { pageIn } from "../../edge/http/page-query.ts";
import { pageFields } from "../../edge/http/query.ts";
import { type HttpRequest, json, route } from "../../edge/http/route.ts";
import { apiKeyFields } from "./api-key-fields.ts";
import { createApiKey } from "./create-api-key.ts";
import { getApiKey, listApiKeys } from "./list-api-keys.ts";
import { revokeApiKey } from "./revoke-api-key.ts";

const base = "/v1/codeq/admin/keys";

const params = { id: "The id of the key; the key begins with it." };

function shown(known: KnownApiKey, codec: JsonCodec): Record<string, unknown> {
  return apiKeyFields(known, (ms) => codec.instant(ms));
}

function idIn({ params }: HttpRequest): { ok: true; value: { id: string } } {
  return { ok: true, value: { id: params["id"] ?? "" } };
}

export const apiKeyRoutes = [
  route({
    method: "POST",
    path: base,
    operation: createApiKey,
    name: "createApiKey",
    summary: "Create an API key",
    replies: { 201: { about: "The key with its text.", schema: "CreatedApiKey" } },
    refusals: ["payloads_hidden", "event_type_not_allowed", "too_many_keys"],
    body: CreateApiKeyBody,
    input: ({ body }) => {
      const fields = body as BodyOf<typeof CreateApiKeyBody>;
      return {
        ok: true,
        value: {
          name: fields.name,
          scopes: fields.scopes ?? [],
          eventTypes: fields.eventTypes ?? [],
          role: fields.role ?? "",
          expiresAt: fields.expiresAt ?? "",
          expiresInSeconds: fields.expiresInSeconds ?? 0,
        },
      };
    },
    reply: ({ key, token }, codec) => {
      const fields = shown({ key, lastUsedMs: undefined }, codec);
      return json(JSON.stringify({ ...fields, token }), 201);
    },
  }),
  route({
    method: "GET",
    path: base,
    operation: listApiKeys,
    name: "listApiKeys",
    summary: "List API keys",
    query: pageFields,
    replies: { 200: { about: "Keys without their text.", schema: "ApiKeys" } },
    input: (request) => ({ ok: true, value: pageIn(request) }),
    reply: ({ keys, next }, codec) =>
      json(JSON.stringify({ keys: keys.map((each) => shown(each, codec)), next })),
  }),
  route({
    method: "GET",
    path: `${base}/:id`,
    operation: getApiKey,
    name: "getApiKey",
    summary: "Get an API key",
    params,
    replies: { 200: { about: "The key without its text.", schema: "ApiKey" } },
    refusals: ["not_found"],
    input: idIn,
    reply: (known, codec) => json(JSON.stringify(shown(known, codec))),
  }),
  route({
    method: "DELETE",
    path: `${base}/:id`,
    operation: revokeApiKey,
    name: "revokeApiKey",
    summary: "Revoke an API key",
    params,
    replies: { 204: { about: "The key is refused from now on." } },
    refusals: ["not_found"],
    input: idIn,
    reply: () => ({ status: 204, body: undefined }),
  }),
] as const;
